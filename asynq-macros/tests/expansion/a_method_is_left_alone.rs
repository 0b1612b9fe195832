// #[job]
// async fn hello(&self, name: String) {}

async fn hello(&self, name: String) {}
::core::compile_error! {
    "a job is a free function; pass shared state as `State<T>`"
}
