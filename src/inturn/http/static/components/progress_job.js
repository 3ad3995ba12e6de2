// Run a long job on the server: a progress bar, and a button that cancels it.

import { ApiError, streamJsonLines } from "../api.js";
import { el, setText } from "../dom.js";
import { percent } from "../format.js";
import { t } from "../i18n.js";

/**
 * Returns {node, run(path, body), cancel()}. `run` resolves with the last line of the response, or with null after
 * cancel(); errors are thrown. A new run cancels the previous one.
 * @param {{ label: string, signal: AbortSignal }} options
 */
export function progressJob({ label, signal }) {
  /** @type {AbortController | null} */
  let current = null;
  const bar = el("progress", { max: "1", "aria-label": label });
  const part = el("span", { class: "muted job-part" });
  const button = el("button", { class: "button button-small", type: "button", on: { click: () => cancel() } }, t("shell.cancel"));
  const node = el("div", { class: "job", hidden: true }, bar, part, button);

  function cancel() {
    current?.abort();
  }

  /**
   * @param {string} path
   * @param {unknown} [body]
   * @returns {Promise<any>}
   */
  async function run(path, body) {
    cancel();
    const controller = new AbortController();
    current = controller;
    const end = () => controller.abort();
    signal.addEventListener("abort", end);
    node.hidden = false;
    bar.removeAttribute("value");
    setText(part, "");
    try {
      return await readLastLine(path, body, controller.signal);
    } catch (error) {
      if (controller.signal.aborted) return null;
      throw error instanceof ApiError ? error : new ApiError("offline", 0, null); // the connection broke
    } finally {
      signal.removeEventListener("abort", end);
      if (current === controller) {
        current = null;
        node.hidden = true;
      }
    }
  }

  /**
   * @param {string} path
   * @param {unknown} body
   * @param {AbortSignal} ending
   */
  async function readLastLine(path, body, ending) {
    let lastLine = null;
    for await (const line of streamJsonLines("POST", path, { body, signal: ending })) {
      lastLine = line;
      if (line.total > 0 && line.done !== undefined) {
        bar.value = line.done / line.total;
        setText(part, percent(line.done / line.total, 0));
      }
    }
    if (lastLine?.error !== undefined) throw new ApiError("invalid_input", 422, lastLine.error);
    if (lastLine === null || lastLine.done !== undefined) throw new ApiError("offline", 0, null);
    return lastLine;
  }

  return { node, run, cancel };
}
