// Upload files in the background, one request each. Uploads go on while other pages are open.

import { ApiError, get, isAbort, upload } from "../../api.js";
import { formatLimit } from "../../format.js";
import { t } from "../../i18n.js";
import { toast } from "../../components/toast.js";

/**
 * A file of this visit. `now` is the state of its document, `isFinal` that another try would fail too.
 * @typedef {{
 *   key: number, file: File, state: string, part: number, error: string | null, isFinal: boolean, receipt: Api.Receipt | null,
 *   customer: string, batch: string, idempotency: string, abort: AbortController | null, now: { state: string },
 * }} Item
 * @typedef {Item & { receipt: Api.Receipt }} ArrivedItem
 */

const MAX_PARALLEL_UPLOADS = 3;
const MAX_ATTEMPTS = 6;
const RETRY_DELAY_MS = 2_000;
export const CHOSEN = "chosen";
export const QUEUED = "queued";
export const SENDING = "sending";
export const DONE = "done";
export const FAILED = "failed";
export const STOPPED = "stopped";

/** The files of this visit, in every state. The queue outlives the page that shows it. */
class UploadQueue {
  /** @type {Item[]} */
  items = [];
  /** @type {Map<string, Api.Bounds | null>} */
  bounds = new Map();
  /** @type {Map<string, Api.Counter>} */
  counters = new Map();
  /** @type {string | null} */
  #person = null;
  /** @type {Api.UploadLimits} */
  #limits;
  /** @type {(() => void) | null} */
  #draw = null;
  #number = 0;

  /**
   * @param {string} person
   * @param {Api.UploadLimits} limits
   */
  use(person, limits) {
    if (person !== this.#person) this.items = [];
    this.#person = person;
    this.#limits = limits;
  }

  /** @param {(() => void) | null} draw */
  watch(draw) {
    this.#draw = draw;
  }

  /** @param {File[]} files */
  add(files) {
    for (const file of files) {
      this.#number += 1;
      const isTooLarge = file.size > this.#limits.file;
      const error = isTooLarge ? t("upload.too_large", { size: formatLimit(file.size), most: formatLimit(this.#limits.file) }) : null;
      this.items.push({ key: this.#number, file, state: isTooLarge ? FAILED : CHOSEN, part: 0, error, isFinal: isTooLarge, receipt: null, customer: "", batch: "", idempotency: "", abort: null, now: { state: "waiting" } });
    }
    this.#changed();
  }

  /**
   * Upload the chosen files, in the order of choice.
   * @param {string} customer
   * @param {string} batch
   */
  start(customer, batch) {
    for (const item of this.items) if (item.state === CHOSEN) Object.assign(item, { state: QUEUED, customer, batch, idempotency: randomKey() });
    this.#next();
  }

  /** @param {Item} item */
  remove(item) {
    item.abort?.abort();
    this.items = this.items.filter((other) => other !== item);
    this.#changed();
  }

  /** @param {Item} item */
  stop(item) {
    item.state = STOPPED;
    item.abort?.abort();
    this.#next();
  }

  /**
   * Upload again under the same idempotency key, so that a file that did arrive is not submitted twice.
   * @param {Item} item
   */
  retry(item) {
    Object.assign(item, { state: item.customer === "" ? CHOSEN : QUEUED, error: null, part: 0 });
    this.#next();
  }

  forget() {
    this.items = this.items.filter((item) => [QUEUED, SENDING].includes(item.state));
    this.#changed();
  }

  /** The files whose documents are in the queue. */
  get arrived() {
    return this.items.filter(isArrived);
  }

  get isBusy() {
    return this.items.some((item) => [QUEUED, SENDING].includes(item.state));
  }

  #next() {
    while (this.items.filter((item) => item.state === SENDING).length < MAX_PARALLEL_UPLOADS) {
      const item = this.items.find((candidate) => candidate.state === QUEUED);
      if (item === undefined) break;
      void this.#send(item);
    }
    this.#changed();
  }

  /** @param {Item} item */
  async #send(item) {
    item.state = SENDING;
    const abort = new AbortController();
    item.abort = abort;
    try {
      const receipt = await this.#upload(item, abort.signal);
      const arrived = Object.assign(item, { receipt, state: DONE, now: { state: "waiting" } });
      await this.#explain(arrived);
    } catch (error) {
      if (isAbort(error)) item.state = STOPPED;
      else {
        item.state = FAILED;
        item.error = !(error instanceof ApiError) ? t("errors.unexpected") : error.message;
        if (!(error instanceof ApiError)) throw error;
        item.isFinal = ["too_large", "invalid_input", "wrong_media"].includes(error.code);
      }
    } finally {
      this.#next();
      if (!this.isBusy && this.#draw === null) this.#toastWhenDone();
    }
  }

  /**
   * Send a file; retry with a growing delay while the server answers "too_many".
   * @param {Item} item
   * @param {AbortSignal} signal
   */
  async #upload(item, signal) {
    const form = new FormData();
    form.append("customer", item.customer);
    if (item.batch) form.append("batch", item.batch);
    form.append("file", item.file, item.file.name);
    const onProgress = (/** @type {number} */ part) => {
      item.part = part;
      this.#changed();
    };
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await upload("/v1/documents", form, { onProgress, signal, headers: { "Idempotency-Key": item.idempotency } });
        return answer.receipts[0];
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "too_many" || tries === MAX_ATTEMPTS) throw error;
        await new Promise((resolve) => setTimeout(resolve, tries * RETRY_DELAY_MS));
        signal.throwIfAborted();
      }
    }
  }

  /**
   * Fetch the thresholds around the level, and the counter.
   * @param {ArrivedItem} item
   */
  async #explain(item) {
    try {
      const why = await get(`/v1/documents/${item.receipt.id}/why`);
      this.bounds.set(`${item.customer} ${item.receipt.level}`, why.bounds);
      const known = this.counters.get(item.customer);
      if (why.counter !== null && (known === undefined || known.updated_at <= why.counter.updated_at)) this.counters.set(item.customer, why.counter);
      item.now = { state: why.state };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the receipt is complete without it
    }
  }

  #toastWhenDone() {
    const n = this.arrived.length;
    if (n > 0) toast(t("upload.all_arrived", { n }));
  }

  #changed() {
    this.#draw?.();
  }
}

export const uploadQueue = new UploadQueue();
window.addEventListener("beforeunload", (event) => {
  if (uploadQueue.isBusy) event.preventDefault();
});

/**
 * @param {Item} item
 * @returns {item is ArrivedItem}
 */
export function isArrived(item) {
  return item.state === DONE && item.receipt !== null;
}

/** Make an idempotency key. crypto.randomUUID is missing on pages served by plain http. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
