// Something that takes the server a while: how far it is, and a button that ends it.

import { ApiError, lines } from "../api.js";
import { el, setText } from "../dom.js";
import { percent } from "../format.js";
import { t } from "../i18n.js";

/**
 * job({label, signal}) gives {node, run(path, body), cancel()}. `run` resolves with the server's last line, or with null
 * if it was cancelled here; whatever went wrong is thrown. A new run ends the one before.
 */
export function job({ label, signal }) {
  let under = null;
  const bar = el("progress", { max: "1", "aria-label": label });
  const part = el("span", { class: "muted job-part" });
  const button = el("button", { class: "button button-small", type: "button", on: { click: () => cancel() } }, t("shell.cancel"));
  const node = el("div", { class: "job", hidden: true }, bar, part, button);

  function cancel() {
    under?.abort();
  }

  async function run(path, body) {
    cancel();
    const mine = new AbortController();
    under = mine;
    const end = () => mine.abort();
    signal.addEventListener("abort", end);
    node.hidden = false;
    bar.removeAttribute("value");
    setText(part, "");
    try {
      return await last(path, body, mine.signal);
    } catch (wrong) {
      if (mine.signal.aborted) return null;
      throw wrong instanceof ApiError ? wrong : new ApiError("offline", 0, null); // it broke off
    } finally {
      signal.removeEventListener("abort", end);
      if (under === mine) {
        under = null;
        node.hidden = true;
      }
    }
  }

  async function last(path, body, ending) {
    let found = null;
    for await (const line of lines("POST", path, { body, signal: ending })) {
      found = line;
      if (line.total > 0 && line.done !== undefined) {
        bar.value = line.done / line.total;
        setText(part, percent(line.done / line.total, 0));
      }
    }
    if (found?.error !== undefined) throw new ApiError("invalid_input", 422, found.error);
    if (found === null || found.done !== undefined) throw new ApiError("offline", 0, null);
    return found;
  }

  return { node, run, cancel };
}
