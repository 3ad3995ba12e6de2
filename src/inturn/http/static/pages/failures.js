// Failed documents by kind of error, and the retry of a kind.

import { ApiError, get, send } from "../api.js";
import { autoRefresh } from "../auto_refresh.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { number, time } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { mayOperate } from "../session.js";
import { confirm } from "../components/dialog.js";
import { readOnlyNote, selectField } from "../components/fields.js";
import { panel } from "../components/panel.js";
import { emptyState } from "../components/placeholders.js";
import { relativeTime, updateRelativeTime } from "../components/relative_time.js";
import { toast } from "../components/toast.js";

/** @import { View } from "../router.js" */
/** @typedef {Api.FailureGroup} Group */
/** @typedef {Pick<Api.Failures, "since" | "until">} Range */

const HOUR = 3_600_000_000;
/** @type {Record<string, number | null>} */
const RANGES = { hour: HOUR, day: 24 * HOUR, week: 168 * HOUR, month: 720 * HOUR, all: null };
const DEFAULT_RANGE = "day";

/** @param {View} view */
export async function mount(view) {
  let requestId = 0;
  const range = selectField({ label: t("failures.range"), options: Object.keys(RANGES).map((name) => [name, t(`failures.range_${name}`)]), value: chosenRange(view) });
  range.input.addEventListener("change", () => view.setQuery({ range: range.input.value === DEFAULT_RANGE ? null : range.input.value }));
  const summary = el("p", { class: "muted", role: "status" });
  const list = el("ul", { class: "failure-groups" });
  const none = emptyState(t("failures.none"), t("failures.none_hint"));

  /** @param {Api.Failures} failures */
  function draw(failures) {
    none.hidden = failures.groups.length > 0;
    const words = [failures.documents > 0 && t("failures.summary", { n: failures.documents }), failures.oldest_at !== null && t("failures.cut", { n: failures.documents, time: time(failures.oldest_at) })];
    setText(summary, words.filter(Boolean).join(" "));
    const update = (/** @type {HTMLElement & { group: GroupCard }} */ node, /** @type {Group} */ group) => node.group.update(group, failures);
    const make = (/** @type {Group} */ group) => {
      const card = new GroupCard(retry);
      const node = Object.assign(card.node, { group: card });
      update(node, group);
      return node;
    };
    reconcileChildren(list, failures.groups, (group) => group.id, make, update);
  }

  async function load() {
    requestId += 1;
    const own = requestId;
    const length = RANGES[chosenRange(view)];
    const since = length === null ? 0 : Math.max(0, Date.now() * 1_000 - length);
    const failures = await get("/v1/failures", { query: { since }, signal: view.signal });
    if (own === requestId) draw(failures);
  }

  /**
   * Retry exactly the documents that were counted: those that failed since then are left out.
   * @param {Group} group
   * @param {Range} range
   */
  async function retry(group, { since, until }) {
    const answer = await confirm({ title: t("failures.retry_ask", { n: group.documents }), text: `${group.error}. ${t("failures.retry_text", { n: group.customers })}`, action: t("failures.retry", { n: group.documents }) });
    if (answer === null) return;
    try {
      const done = await send("POST", `/v1/failures/${group.id}/retry`, { body: { since, until }, query: { why: answer.why } });
      toast(t("failures.retried", { n: done.documents }));
      await load();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  await load();
  autoRefresh(view, load, { concerns: (event) => ["failed", "retried", "purged"].includes(event.kind) });
  fill(view.root, panel(t("failures.title"), { className: "panel-flush", hint: t("failures.intro"), actions: range.node }, el("div", { class: "failure-summary" }, summary), none, list), !mayOperate() && readOnlyNote());
  return {
    update() {
      range.input.value = chosenRange(view);
      return load();
    },
  };
}

/** @param {View} view */
function chosenRange(view) {
  const name = view.query.get("range") ?? "";
  return name in RANGES ? name : DEFAULT_RANGE;
}

class GroupCard {
  /** @type {Group} */
  #group;
  /** @type {Range} */
  #range;

  /** @param {(group: Group, range: Range) => unknown} retry */
  constructor(retry) {
    this.error = el("p", { class: "failure-error mono" });
    this.count = el("p", { class: "failure-count" });
    this.customers = el("p", { class: "muted failure-customers" });
    this.times = el("p", { class: "muted" });
    this.first = relativeTime(0);
    this.last = relativeTime(0);
    fill(this.times, t("failures.first"), " ", this.first, " · ", t("failures.last"), " ", this.last);
    this.example = el("a", {});
    this.exampleError = el("span", { class: "muted failure-example" });
    this.button = el("button", { class: "button button-small", type: "button", on: { click: () => retry(this.#group, this.#range) } });
    const example = el("p", { class: "failure-example-line" }, t("failures.example"), " ", this.example, " ", this.exampleError);
    this.node = el("li", { class: "failure-group" }, el("div", { class: "failure-head" }, this.count, this.error, mayOperate() && this.button), this.customers, this.times, example);
  }

  /**
   * @param {Group} group
   * @param {Range} range
   */
  update(group, range) {
    this.#group = group;
    this.#range = range;
    setText(this.error, group.error);
    setText(this.count, number(group.documents));
    setProp(this.count, "aria-label", t("failures.summary", { n: group.documents }));
    fill(this.customers, customerLinks(group));
    updateRelativeTime(this.first, group.first_at);
    updateRelativeTime(this.last, group.last_at);
    setText(this.example, group.example.name);
    setProp(this.example, "href", pageUrl("document", { id: group.example.id }));
    setText(this.exampleError, group.example.error.split("\n", 1)[0]);
    setText(this.button, t("failures.retry", { n: group.documents }));
    setProp(this.button, "aria-label", `${this.button.textContent}: ${group.error}`);
  }
}

/** @param {Group} group */
function customerLinks({ customers, most }) {
  const links = most.flatMap((name, index) => [index > 0 && ", ", el("a", { href: pageUrl("customer", { name }) }, name)]);
  const rest = customers - most.length;
  return [t("failures.customers", { n: customers }), " ", links, rest > 0 && ` ${t("failures.more_customers", { n: rest })}`];
}
