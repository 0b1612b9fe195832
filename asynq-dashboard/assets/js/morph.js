// Makes one element equal to another by changing only what differs, so that focus, selection, what was typed and open
// parts stay. Elements with an id are matched by it; the inside of a plot or an output belongs to its script.

// Attributes that users and scripts change on the page, and that the server's rendering never changes.
const KEPT = new Set(["open", "aria-busy", "disabled", "hidden"]);

export function morph(from, to) {
  attributes(from, to);
  if (from.matches("[data-chart], [data-spark], output")) return;
  children(from, to);
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !KEPT.has(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !KEPT.has(name)) from.setAttribute(name, value);
  }
}

function children(from, to) {
  const byId = matched(from, to);
  const moving = movers(byId, to);
  let at = from.firstChild;
  const wants = [...to.childNodes];
  for (const [n, wanted] of wants.entries()) {
    // A child that nothing can become any more goes first: it would part those behind it from their places.
    for (let next; at && (moving.has(at) || !becomes(at, wants.slice(n))); at = next) {
      next = at.nextSibling;
      if (!moving.has(at)) at.remove();
    }
    const found = wanted.id ? byId.get(wanted.id) : sameKind(at, wanted) ? at : null;
    if (!found) {
      from.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    // A browser that can move an element leaves the focus and the selection in it.
    else if (from.moveBefore && from.isConnected) from.moveBefore(found, at);
    else from.insertBefore(found, at);
    if (found.nodeType === Node.ELEMENT_NODE) morph(found, wanted);
    else if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Returns the children that have the id of one of `to`, by that id, and removes those with another id: a child that is moved past
// one that goes would lose its focus and selection.
function matched(from, to) {
  const wanted = new Map([...to.children].map((child) => [child.id, child.nodeName]));
  const byId = new Map();
  for (const child of [...from.children].filter((child) => child.id)) {
    if (wanted.get(child.id) === child.nodeName && !byId.has(child.id)) byId.set(child.id, child);
    else child.remove();
  }
  return byId;
}

// Returns the fewest children that have to be moved for the order of `to`: all but the longest row of children that follow one
// another in both orders.
function movers(byId, to) {
  const place = new Map([...byId.values()].map((child, n) => [child, n]));
  const children = [...to.children].map((wanted) => wanted.id && byId.get(wanted.id)).filter(Boolean);
  // The last child of the best row of each length, and the child before each child in its row.
  const [ends, before] = [[], new Map()];
  for (const child of children) {
    const n = ends.findLastIndex((end) => place.get(end) < place.get(child)) + 1;
    before.set(child, ends[n - 1]);
    ends[n] = child;
  }
  const moving = new Set(children);
  for (let child = ends.at(-1); child; child = before.get(child)) moving.delete(child);
  return moving;
}

const becomes = (node, wants) => node.id || wants.some((wanted) => !wanted.id && sameKind(node, wanted));

function sameKind(node, wanted) {
  return node && !node.id && node.nodeType === wanted.nodeType && node.nodeName === wanted.nodeName;
}
