// How long a taken document is reserved. Work renews it: while the page is shown, and keys, pointer or wheel were used
// a short time ago.

import { ApiError, isAbort, send } from "../../api.js";

/** @import { View } from "../../router.js" */
/** @typedef {"held" | "ending" | "over" | "lost"} LeaseState */

const SECOND = 1_000_000;
const LEASE = 1_800 * SECOND;
const RENEW_MS = 60_000;
/** Without a key, a click or a scroll for so long, the page counts as unattended. */
const IDLE_MS = 300_000;
const ENDING = 300 * SECOND;
const ACTIVITY = /** @type {const} */ (["keydown", "pointerdown", "wheel", "input"]);

export class Lease {
  #path;
  #fence;
  #onChange;
  /** By the browser's clock, in microseconds. */
  #until = 0;
  #renewedAt = 0;
  #activeAt = Date.now();
  #isRenewing = false;
  #isEnded = false;
  isLost = false;

  /**
   * `onChange` is called once a second, and when the document is lost.
   * @param {View} view
   * @param {`/v1/documents/${string}`} path
   * @param {number} fence
   * @param {() => unknown} onChange
   */
  constructor(view, path, fence, onChange) {
    this.#path = path;
    this.#fence = fence;
    this.#onChange = onChange;
    for (const kind of ACTIVITY) document.addEventListener(kind, () => this.#worked(), { signal: view.signal, passive: true });
    view.every(RENEW_MS, () => {
      if (Date.now() - this.#activeAt < IDLE_MS) void this.renew();
    });
    view.every(1_000, onChange);
    view.onEnd(() => this.end());
  }

  /** Microseconds that are left, by the browser's clock. */
  get left() {
    return this.#until - Date.now() * 1_000;
  }

  /** By the browser's clock. */
  get until() {
    return this.#until;
  }

  /** @returns {LeaseState} */
  get state() {
    if (this.isLost) return "lost";
    if (this.left <= 0) return "over";
    return this.left < ENDING ? "ending" : "held";
  }

  /** Reserve it for as long again, from now. */
  async renew() {
    if (this.#isRenewing || this.#isEnded || this.isLost) return;
    this.#isRenewing = true;
    this.#renewedAt = Date.now();
    try {
      await send("POST", `${this.#path}/extend`, { body: { fence: this.#fence }, query: { lease: LEASE } });
      this.#until = this.#renewedAt * 1_000 + LEASE;
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      if (!this.#isEnded) this.isLost = error.status === 404 || error.status === 409; // else the server is away: tried again
    } finally {
      this.#isRenewing = false;
      this.#onChange();
    }
  }

  /** It was finished, handed back or rejected. */
  end() {
    this.#isEnded = true;
  }

  #worked() {
    this.#activeAt = Date.now();
    if (this.#activeAt - this.#renewedAt > RENEW_MS) void this.renew();
  }
}
