// The button that loads the next page of a list, by the server's cursor.

import { el } from "../dom.js";
import { t } from "../i18n.js";

/** A button for the next page of a list that is filled up from below. update({hasMore, isBusy}). */
export function loadMoreButton(load) {
  const button = el("button", { class: "button", type: "button", on: { click: load } }, t("shell.more"));
  const node = el("div", { class: "more" }, button);
  return {
    node,
    update({ hasMore, isBusy = false }) {
      node.hidden = !hasMore;
      button.disabled = isBusy;
    },
  };
}
