// Tabs of a page, as links: the tab is in the address, so that it can be sent, and Back leads to the one before.

import { el, setProp } from "../dom.js";

/**
 * show(name) shows a tab; the first one if there is none of that name. A tab keeps its query.
 * @param {string} label
 * @param {{ name: string, label: string, href: string, nodes: Node[] }[]} list
 */
export function tabs(label, list) {
  let shown = 0;
  const keepQuery = () => {
    setProp(links[shown], "href", location.pathname + location.search);
  };
  /** @type {HTMLAnchorElement[]} */
  const links = list.map(({ label: text, href }) => el("a", { class: "tab", href, on: { click: keepQuery } }, text));
  const bodies = list.map(({ nodes }) => el("div", { class: "tab-body", hidden: true }, nodes));
  const node = el("div", { class: "tabs-box" }, el("nav", { class: "tabs", "aria-label": label }, links), bodies);
  return {
    node,
    /** @param {string} name */
    show(name) {
      const index = Math.max(0, list.findIndex((tab) => tab.name === name));
      shown = index;
      links.forEach((link, at) => setProp(link, "aria-current", at === index ? "page" : null));
      bodies.forEach((body, at) => setProp(body, "hidden", at !== index));
    },
  };
}
