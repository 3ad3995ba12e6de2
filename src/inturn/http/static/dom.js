// Build DOM elements. Strings become text nodes: no module parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** el("a", {class: "x", href: "/", on: {click}}, "text", node, null, [more]) */
export function el(tag, props = {}, ...children) {
  return populate(document.createElement(tag), props, children);
}

/** The same for SVG elements. */
export function svg(tag, props = {}, ...children) {
  return populate(document.createElementNS(SVG, tag), props, children);
}

function populate(node, props, children) {
  for (const [name, value] of Object.entries(props)) setProp(node, name, value);
  add(node, children);
  return node;
}

export function setProp(node, name, value) {
  if (name === "on") for (const [kind, call] of Object.entries(value)) node.addEventListener(kind, call);
  else if (name === "data") Object.assign(node.dataset, value);
  else if (name === "vars") for (const [key, cssValue] of Object.entries(value)) node.style.setProperty(`--${key}`, cssValue);
  else if (name === "value" && "value" in node) node.value = value;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

export function add(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** Set a text only if it differs, so that selections stay and screen readers keep quiet. */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/**
 * Make a parent's children match a list. Nodes are matched by key and updated in place, and as few as possible are
 * moved, so that focus, selection and scroll survive.
 */
export function reconcileChildren(parent, items, keyOf, make, update) {
  const nodes = parent.keyedNodes ?? (parent.keyedNodes = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, node] of nodes) {
    if (!wanted.has(key)) {
      node.remove();
      nodes.delete(key);
    }
  }
  let cursor = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = nodes.get(key);
    if (node === undefined) {
      node = make(item);
      nodes.set(key, node);
    } else {
      update(node, item);
    }
    if (node === cursor) cursor = cursor.nextSibling;
    else if (node.contains(document.activeElement) && cursor !== null) {
      // Moving a focused node would take its focus away, so the nodes before it are moved to the end.
      while (cursor !== node) {
        const next = cursor.nextSibling;
        parent.append(cursor);
        cursor = next;
      }
      cursor = node.nextSibling;
    } else parent.insertBefore(node, cursor);
  }
}

let lastId = 0;

/** Make a unique element id. */
export function newId(what = "id") {
  lastId += 1;
  return `${what}-${lastId}`;
}

/** Delay calls until `ms` have passed without another one. */
export function debounce(call, ms = 250) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}
