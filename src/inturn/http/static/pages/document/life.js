// What happened to a document, oldest first; an error stands at the attempt that ended with it.

import { el, keyed, setText } from "../../dom.js";
import { duration, time } from "../../format.js";
import { t } from "../../i18n.js";
import { panel } from "../../parts/cards.js";

const MOST_OF_ERROR = 300;

export class TimeLine {
  constructor() {
    this.list = el("ol", { class: "life" });
    this.note = el("p", { class: "muted" }, t("document.life_partial"));
    this.node = panel(t("document.life"), {}, this.list, this.note);
  }

  update(found, life) {
    const moments = steps(found, life);
    this.note.hidden = life.is_whole;
    keyed(this.list, moments, (each) => each.key, makeStep, updateStep);
  }
}

const FAILED = ["delayed", "failed", "lease_lost"];
const HOLDS = { started: "running", finished: "done", failed: "failed", lease_lost: "failed", delayed: "delayed", cancelled: "cancelled", expired: "expired" };

/** The moments told by the server; those that were deleted are made up for by what the document itself remembers. */
function steps(found, life) {
  const told = [...life.moments];
  const add = (kind, at) => {
    if (at !== null && !told.some((each) => each.kind === kind && Math.abs(each.at - at) < 2_000_000)) told.push({ kind, at, operator: null, why: null });
  };
  if (!life.is_whole) {
    add("submitted", found.submitted_at);
    add("started", found.started_at);
    const ends = { done: "finished", failed: "failed", cancelled: "cancelled", expired: "expired" };
    if (found.state in ends) add(ends[found.state], found.finished_at);
  }
  told.sort((one, other) => one.at - other.at);
  let attempt = 0;
  const shown = told.map((each, place) => {
    if (each.kind === "retried") attempt = 0;
    if (each.kind === "started") attempt += 1;
    const step = { ...each, attempt, key: `${place} ${each.kind} ${each.at}`, since: place > 0 ? each.at - told[place - 1].at : null, most: found.max_attempts };
    if (each.kind === "handed_back") attempt -= 1;
    return step;
  });
  const last = shown.findLast((each) => FAILED.includes(each.kind));
  if (last !== undefined && found.error !== null) last.error = firstLine(found.error);
  return shown;
}

function makeStep(step) {
  const when = el("time", { datetime: new Date(step.at / 1_000).toISOString(), title: time(step.at) }, time(step.at));
  const since = step.since !== null && step.since >= 0 && el("span", { class: "muted" }, `+${duration(step.since)}`);
  const words = t(`document.life_${step.kind}`, { attempt: step.attempt, most: step.most });
  const error = el("p", { class: "document-error", hidden: true });
  const by = step.operator && el("p", { class: "muted life-by" }, step.why ? t("document.by_why", { name: step.operator, why: step.why }) : t("document.by", { name: step.operator }));
  const node = el("li", { class: `life-step state-${HOLDS[step.kind] ?? "waiting"}` }, el("p", { class: "life-what" }, words), el("p", { class: "muted life-when" }, when, since), by, error);
  Object.assign(node, { error });
  updateStep(node, step);
  return node;
}

function updateStep(node, step) {
  node.error.hidden = step.error === undefined;
  setText(node.error, step.error ?? "");
}

/** All of an error stands above; here it is named. */
function firstLine(error) {
  const [line] = error.split("\n");
  return line.length > MOST_OF_ERROR ? `${line.slice(0, MOST_OF_ERROR)}…` : line;
}
