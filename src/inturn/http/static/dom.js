// Build DOM elements. Strings become text nodes: no module parses HTML.

const SVG = "http://www.w3.org/2000/svg";
/** @type {WeakMap<Element, Map<unknown, Element>>} */
const keyedNodes = new WeakMap();

/**
 * What `el` takes: a text, a node, lists of them; nothing is made of the others.
 * @typedef {Node | string | number | null | undefined | boolean | ChildList} Child
 * @typedef {{ readonly [index: number]: Child, readonly length: number, flat: unknown }} ChildList
 *
 * Attributes, besides listeners, data attributes, CSS variables and `value`.
 * @typedef {{
 *   on?: { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => unknown },
 *   data?: Record<string, string>,
 *   vars?: Record<string, string | number>,
 *   [attribute: string]: unknown,
 * }} Props
 */

/**
 * el("a", {class: "x", href: "/", on: {click}}, "text", node, null, [more])
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} props
 * @param {Child[]} children
 */
export function el(tag, props = {}, ...children) {
  return populate(document.createElement(tag), props, children);
}

/**
 * The same for SVG elements.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} props
 * @param {Child[]} children
 */
export function svg(tag, props = {}, ...children) {
  return populate(document.createElementNS(SVG, tag), props, children);
}

/**
 * @template {HTMLElement | SVGElement} N
 * @param {N} node
 * @param {Props} props
 * @param {Child[]} children
 */
function populate(node, props, children) {
  for (const [name, value] of Object.entries(props)) setProp(node, name, value);
  add(node, children);
  return node;
}

/**
 * @param {HTMLElement | SVGElement} node
 * @param {string} name
 * @param {any} value
 */
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

/**
 * @template {Element} N
 * @param {N} node
 * @param {Child[]} children
 */
function add(node, children) {
  for (const child of /** @type {Exclude<Child, ChildList>[]} */ (children.flat(Infinity))) {
    if (child !== null && child !== undefined && typeof child !== "boolean") node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/**
 * @template {Element} N
 * @param {N} node
 * @param {Child[]} children
 */
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/**
 * Set a text only if it differs, so that selections stay and screen readers keep quiet.
 * @param {Node} node
 * @param {string | number} text
 */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/**
 * Make a parent's children match a list. Nodes are matched by key and updated in place, and as few as possible are
 * moved, so that focus, selection and scroll survive.
 * @template Item
 * @template {HTMLElement | SVGElement} N
 * @param {Element} parent
 * @param {readonly Item[]} items
 * @param {(item: Item) => unknown} keyOf
 * @param {(item: Item) => N} make
 * @param {(node: N, item: Item) => void} update
 */
export function reconcileChildren(parent, items, keyOf, make, update) {
  const nodes = /** @type {Map<unknown, N>} */ (keyedNodes.get(parent) ?? new Map());
  keyedNodes.set(parent, nodes);
  const wanted = new Set(items.map(keyOf));
  for (const [key, node] of nodes) {
    if (!wanted.has(key)) {
      node.remove();
      nodes.delete(key);
    }
  }
  /** @type {ChildNode | null} */
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
      while (cursor !== null && cursor !== node) {
        const next = /** @type {ChildNode | null} */ (cursor.nextSibling);
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

/**
 * Delay calls until `ms` have passed without another one.
 * @template {unknown[]} Args
 * @param {(...args: Args) => unknown} call
 */
export function debounce(call, ms = 250) {
  let timer = 0;
  return (/** @type {Args} */ ...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}
