// The audit log: actions by operators and customers, newest first. New entries appear at the top.

import { get, ignoreRequestError } from "../api.js";
import { debounce, el, fill, reconcileChildren } from "../dom.js";
import { durationInWords, number, time } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { selectField, textField } from "../components/fields.js";
import { loadMoreButton } from "../components/paging.js";
import { emptyState } from "../components/placeholders.js";
import { rangeFromQuery, timeRange } from "../components/time_range.js";

/** @import { View } from "../router.js" */

const KINDS = ["cancelled", "retried", "expedited", "expedite_undone", "purged", "customer_changed", "queue_changed", "queue_paused", "queue_resumed", "policy_set", "repaired", "key_made", "key_ended", "worker_paused", "worker_resumed", "failures_acknowledged"];
/** @type {("kind" | "operator" | "customer")[]} */
const FILTERS = ["kind", "operator", "customer"];
const PAGE_SIZE = 50;
const MAX_DOCUMENT_LINKS = 3;

/** @param {View} view */
export async function mount(view) {
  const log = new AuditLog(view);
  const filters = new Filters(view);
  await log.load();
  view.listen(KINDS, () => log.refresh(), 1_000);
  fill(view.root, el("p", { class: "muted audit-intro" }, t("audit.intro")), filters.node, el("section", { class: "panel panel-flush" }, log.node));
  return {
    update() {
      filters.update();
      return log.load();
    },
  };
}

/** Fields for kind, operator and customer. Their values are in the address. */
class Filters {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    const kinds = [["", t("audit.any_kind")], ...KINDS.map((kind) => [kind, t(`audit.kind_${kind}`)])];
    this.kind = selectField({ label: t("audit.filter_kind"), options: kinds, value: view.query.get("kind") ?? "" });
    this.kind.input.addEventListener("change", () => view.setQuery({ kind: this.kind.input.value }));
    this.operator = this.#typed("operator", t("audit.filter_operator"));
    this.customer = this.#typed("customer", t("audit.filter_customer"));
    this.range = timeRange({ query: view.query, onSet: (changes) => view.setQuery(changes) });
    this.node = el("form", { class: "audit-filters", role: "search", on: { submit: (event) => event.preventDefault() } }, FILTERS.map((name) => this[name].node), this.range.node);
  }

  /**
   * @param {string} name
   * @param {string} label
   */
  #typed(name, label) {
    const field = textField({ label, type: "search", value: this.view.query.get(name) ?? "", maxlength: 255 });
    field.input.addEventListener("input", debounce(() => this.view.setQuery({ [name]: field.input.value.trim() })));
    return field;
  }

  /** Show the filters of the address, after Back for example. Typed text stays if it means the same. */
  update() {
    this.range.sync(this.view.query);
    for (const name of FILTERS) {
      const wanted = this.view.query.get(name) ?? "";
      if (this[name].input.value.trim() !== wanted) this[name].input.value = wanted;
    }
  }
}

class AuditLog {
  /** @type {Api.AuditEvent[]} */
  #events = [];
  /** @type {number | null} */
  #next = null;
  #requestId = 0;

  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.list = el("ul", { class: "audit-list" });
    this.none = el("div");
    this.more = loadMoreButton(() => this.load({ isMore: true }));
    this.node = el("div", { role: "region", "aria-live": "off", "aria-label": t("audit.title") }, this.list, this.none, this.more.node);
  }

  /** @param {number | null} before */
  #query(before = null) {
    const filters = Object.fromEntries(FILTERS.map((name) => [name, this.view.query.get(name)]));
    return { ...filters, ...rangeFromQuery(this.view.query), limit: PAGE_SIZE, before };
  }

  async load({ isMore = false } = {}) {
    this.#requestId += 1;
    const requestId = this.#requestId;
    this.more.update({ hasMore: this.#next !== null, isBusy: true });
    const page = await get("/v1/audit", { query: this.#query(isMore ? this.#next : null), signal: this.view.signal });
    if (requestId !== this.#requestId) return; // the filters have changed meanwhile
    this.#events = isMore ? [...this.#events, ...page.events] : page.events;
    this.#next = page.next;
    this.#draw();
  }

  /** Add new entries at the top; the pages loaded so far stay. */
  async refresh() {
    const requestId = this.#requestId;
    try {
      const page = await get("/v1/audit", { query: this.#query(), signal: this.view.signal });
      if (requestId !== this.#requestId) return;
      const newest = this.#events[0]?.number ?? 0;
      const fresh = page.events.filter((event) => event.number > newest);
      if (fresh.length === page.events.length && page.next !== null) this.#next = page.next; // more than a page of entries is new
      this.#events = fresh.length === page.events.length ? page.events : [...fresh, ...this.#events];
      this.#draw();
    } catch (error) {
      ignoreRequestError(error); // the status indicator shows an offline server
    }
  }

  #draw() {
    reconcileChildren(this.list, this.#events, (event) => event.number, makeEntry, () => {});
    const { since, until } = rangeFromQuery(this.view.query);
    const isFiltered = since !== null || until !== null || FILTERS.some((name) => this.view.query.get(name));
    const none = isFiltered ? emptyState(t("audit.no_match"), t("audit.no_match_hint")) : emptyState(t("audit.none"), t("audit.none_hint"));
    fill(this.none, this.#events.length === 0 && none);
    this.more.update({ hasMore: this.#next !== null });
  }
}

/** @param {Api.AuditEvent} event */
function makeEntry(event) {
  const at = el("time", { class: "muted audit-at", datetime: new Date(event.at / 1_000).toISOString() }, time(event.at));
  const about = [event.customer && el("a", { href: pageUrl("customer", { name: event.customer }) }, event.customer), documentLinks(event)];
  return el(
    "li",
    { class: "audit-entry" },
    at,
    el("p", { class: "audit-who" }, event.operator || "–"),
    el("div", { class: "audit-what" }, el("p", { class: "audit-did" }, describeAction(event)), about.some(Boolean) && el("p", { class: "audit-about" }, about), event.why && el("p", { class: "muted" }, t("audit.because", { why: event.why }))),
  );
}

/** @param {Api.AuditEvent} auditEvent */
function describeAction({ kind, documents: ids, detail }) {
  /** @type {Record<string, unknown>} */
  const values = { ...detail, n: kind === "purged" ? (detail.documents ?? 0) : ids.length };
  if (detail.scope) values.scope = t(`shell.scope_${detail.scope.replace("-", "_")}`);
  if (kind.startsWith("queue_") && kind !== "queue_changed" && detail.queue) return t(`audit.did_named_${kind}`, values);
  const sentence = t(`audit.did_${kind}`, values);
  if (kind !== "customer_changed" && kind !== "queue_changed") return sentence;
  const changes = Object.entries(detail).filter(([name]) => kind !== "queue_changed" || name !== "queue");
  return changes.length === 0 ? sentence : `${sentence}: ${changes.map(describeChange).join(", ")}`;
}

/** @param {[string, any]} parts */
function describeChange([name, value]) {
  if (value === null || value === false) return t(`audit.change_${name}_none`);
  if (name === "rate") return t("audit.change_rate", { value: value[0], time: durationInWords(value[1]) });
  if (name === "manual" || name === "form") return t(`audit.change_${name}`);
  if (name === "keep") return t("audit.change_keep", { time: durationInWords(value) });
  return t(`audit.change_${name}`, { value: typeof value === "number" ? number(value, 3) : value });
}

/** @param {Api.AuditEvent} auditEvent */
function documentLinks({ documents: ids }) {
  const links = ids.slice(0, MAX_DOCUMENT_LINKS).map((id) => el("a", { class: "mono", href: pageUrl("document", { id }) }, id.slice(-12)));
  const rest = ids.length - MAX_DOCUMENT_LINKS;
  return [links, rest > 0 && el("span", { class: "muted" }, t("audit.more_documents", { n: rest }))];
}
