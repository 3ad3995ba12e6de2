// The way from a list down to the page: links, and the page's own name last. Hidden on pages that are not below a list.

import { el, fill, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";

/** @typedef {{ text: string, href: string }} TrailLink */

/** update([{text, href}]) sets the links, setCurrent(text) the name of the page. */
export function breadcrumbs() {
  const list = el("ol", { class: "breadcrumbs" });
  const node = el("nav", { hidden: true }, list);
  const current = el("li", { class: "breadcrumb", "aria-current": "page" });
  return {
    node,
    update(/** @type {TrailLink[]} */ links) {
      setProp(node, "aria-label", t("shell.breadcrumbs"));
      fill(list, links.map(({ text, href }) => el("li", { class: "breadcrumb" }, el("a", { href }, text))), current);
      node.hidden = links.length === 0;
      if (node.hidden) setText(current, "");
    },
    setCurrent(/** @type {string} */ text) {
      if (!node.hidden) setText(current, text);
    },
  };
}
