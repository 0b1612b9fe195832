use super::*;
use crate::job::lock::contents::{Contents, Numbers};

fn json(document: &ShapeDocument, is_little: bool, numbers: Numbers) -> (Vec<String>, bool) {
    let samples = samples(document, is_little);
    let contents = Contents { text: "x", numbers, only: None };
    let text = |sample: &Rc<Sample<'_>>| String::from_utf8(sample.to_json(contents).unwrap()).unwrap();
    (samples.values.iter().map(text).collect(), samples.is_cut)
}

fn field(name: &str, node: Node) -> Field {
    Field { name: name.to_owned(), aliases: Vec::new(), node }
}

fn variant(name: &str, form: Form) -> Variant {
    Variant { name: name.to_owned(), form: Some(form) }
}

fn option(node: Node) -> Node {
    Node::Option(Box::new(node))
}

/// `enum Event { Order(OrderEvent), User(UserEvent) }`, and a field beside it.
fn events() -> ShapeDocument {
    let cents = Form::Struct(vec![field("cents", Node::Is(Leaf::U64))]);
    let types = vec![
        Form::Struct(vec![field("event", Node::Type(1)), field("note", option(Node::Is(Leaf::Str)))]),
        Form::Enum(vec![variant("Order", Form::Newtype(Node::Type(2))), variant("User", Form::Newtype(Node::Type(3)))]),
        Form::Enum(vec![variant("Placed", Form::Unit), variant("Shipped", cents)]),
        Form::Enum(vec![variant("Joined", Form::Unit), variant("Left", Form::Unit)]),
    ];
    ShapeDocument::new(Node::Type(0), types)
}

#[test]
fn every_variant_is_there_within_every_variant_around_it() {
    let little = [
        r#"{"event":{"Order":"Placed"},"note":null}"#,
        r#"{"event":{"Order":{"Shipped":{"cents":1}}},"note":null}"#,
        r#"{"event":{"User":"Joined"},"note":null}"#,
        r#"{"event":{"User":"Left"},"note":null}"#,
    ];
    let largest = [
        r#"{"event":{"Order":"Placed"},"note":"x"}"#,
        r#"{"event":{"Order":{"Shipped":{"cents":18446744073709551615}}},"note":"x"}"#,
        r#"{"event":{"User":"Joined"},"note":"x"}"#,
        r#"{"event":{"User":"Left"},"note":"x"}"#,
    ];
    assert_eq!(json(&events(), true, Numbers::One), (little.map(str::to_owned).to_vec(), false));
    assert_eq!(json(&events(), false, Numbers::Largest), (largest.map(str::to_owned).to_vec(), false));
}

#[test]
fn samples_of_types_inside_themselves_end() {
    let sum = |and: Node| {
        let both = Form::Tuple(vec![Node::Type(0), and]);
        ShapeDocument::new(
            Node::Type(0),
            vec![Form::Enum(vec![variant("Of", both), variant("Is", Form::Newtype(Node::Is(Leaf::U8)))])],
        )
    };
    let (samples, is_cut) = json(&sum(Node::Type(0)), true, Numbers::One);
    let inner = r#"{"Of":[{"Is":1},{"Is":1}]}"#;
    let expected = [format!(r#"{{"Of":[{inner},{inner}]}}"#), inner.to_owned(), r#"{"Is":1}"#.to_owned()];
    assert_eq!((samples, is_cut), (expected.to_vec(), false));

    let endless = ShapeDocument::new(Node::Type(0), vec![Form::Struct(vec![field("next", Node::Type(0))])]);
    assert_eq!(json(&endless, false, Numbers::One), (Vec::new(), false));
}

#[test]
fn what_is_left_out_is_told() {
    let chain = |links: usize| {
        let link = |next| Form::Struct(vec![field("next", option(Node::Type(next)))]);
        let types = (1..=links).map(link).chain([Form::Struct(Vec::new())]).collect();
        ShapeDocument::new(Node::Type(0), types)
    };
    // Each type has two fields of the next: the number of parts doubles with each of them.
    let wide = |types: usize, node: fn(Node) -> Node| {
        let both = |next| Form::Struct(vec![field("a", node(Node::Type(next))), field("b", node(Node::Type(next)))]);
        let last = Form::Enum(vec![variant("A", Form::Unit), variant("B", Form::Unit)]);
        ShapeDocument::new(Node::Type(0), (1..=types).map(both).chain([last]).collect())
    };
    let steps_to_an_enum = |steps: usize| {
        let last = Form::Enum(vec![variant("A", Form::Unit), variant("B", Form::Unit)]);
        let step = |next| Form::Struct(vec![field("next", Node::Type(next))]);
        ShapeDocument::new(Node::Type(0), (1..=steps).map(step).chain([last]).collect())
    };
    // Every type is in every other one.
    let entangled = |types: usize| {
        let all = || (0..types).map(|other| option(Node::Type(other))).collect();
        let form = || Form::Enum(vec![variant("All", Form::Tuple(all())), variant("None", Form::Unit)]);
        ShapeDocument::new(Node::Type(0), (0..types).map(|_| form()).collect())
    };
    let array = |inner, n| Node::Array(Box::new(inner), n);
    let odd = |form| ShapeDocument::new(Node::Tuple(vec![Node::Is(Leaf::U8), option(form)]), Vec::new());
    for (name, document, is_cut, has_unknown, is_some) in [
        ("a short chain", chain(20), false, false, true),
        ("a chain that is too long", chain(40), true, false, true),
        ("an enum", steps_to_an_enum(40), false, false, true),
        ("an enum that is too deep", steps_to_an_enum(52), true, false, true),
        ("few parts", wide(10, |it| it), false, false, true),
        ("too many parts in options", wide(20, option), true, false, true),
        ("too many parts that must be there", wide(40, |it| it), true, false, false),
        ("two types in each other", entangled(2), false, false, true),
        ("ten types in each other", entangled(10), true, false, true),
        ("an unknown part", odd(Node::Any("Value".to_owned())), false, true, true),
        ("a part never seen", odd(Node::Unseen), false, true, true),
        ("a type that is not there", odd(Node::Type(7)), false, true, true),
        ("a long array", odd(array(Node::Is(Leaf::U8), 20_000)), false, false, true),
        ("an array that is too long", odd(array(Node::Is(Leaf::U8), 200_000)), true, false, true),
        ("arrays that are too long together", odd(array(array(Node::Is(Leaf::U8), 400), 400)), true, false, true),
    ] {
        let samples = samples(&document, false);
        let found = (samples.is_cut, samples.has_unknown, !samples.values.is_empty());
        assert_eq!(found, (is_cut, has_unknown, is_some), "{name}");
    }
    assert!(samples(&entangled(10), false).values.len() > 1);
    let flattened = Node::Map(Box::new(Node::Any("__Field".to_owned())), Box::new(Node::Unseen));
    let flattened = ShapeDocument::new(flattened, Vec::new());
    for is_little in [true, false] {
        let samples = samples(&flattened, is_little);
        assert!(samples.has_unknown && samples.values.is_empty(), "a struct that has mandatory fields, {is_little}");
    }
}
