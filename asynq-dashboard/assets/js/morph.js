// Makes one element equal to another by changing only what differs, so that focus, selection, what was typed and open
// parts stay. Elements with an id are matched by it; a plot's inside belongs to its script.

// Attributes that users and scripts change on the page, and that the server's rendering does not have.
const KEPT = new Set(["open", "aria-busy", "disabled"]);

export function morph(from, to) {
  attributes(from, to);
  if (from.hasAttribute("data-chart") || from.hasAttribute("data-spark")) return;
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
  const byId = new Map();
  for (const child of from.children) if (child.id) byId.set(child.id, child);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const found = wanted.id ? byId.get(wanted.id) : sameKind(at, wanted) ? at : null;
    if (!found || found.nodeName !== wanted.nodeName) {
      from.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
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

function sameKind(node, wanted) {
  return node && !node.id && node.nodeType === wanted.nodeType && node.nodeName === wanted.nodeName;
}
