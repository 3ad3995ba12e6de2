// The button that loads the next page of a list, by the server's cursor.

import { el } from "../dom.js";
import { t } from "../i18n.js";

/**
 * update({hasMore, isBusy}) shows or disables the button.
 * @param {() => unknown} load
 */
export function loadMoreButton(load) {
  const button = el("button", { class: "button", type: "button", on: { click: load } }, t("shell.more"));
  const node = el("div", { class: "more" }, button);
  return {
    node,
    /** @param {{ hasMore: boolean, isBusy?: boolean }} state */
    update({ hasMore, isBusy = false }) {
      node.hidden = !hasMore;
      button.disabled = isBusy;
    },
  };
}
