// What happened to a document, oldest first; each attempt with its beginning, its end and its error.

import { el, keyed } from "../../dom.js";
import { duration, time } from "../../format.js";
import { t } from "../../i18n.js";
import { panel } from "../../components/panel.js";

const MOST_OF_LINE = 300;
const HOLDS = { started: "running", finished: "done", failed: "failed", lease_lost: "failed", delayed: "delayed", cancelled: "cancelled", expired: "expired" };

export class TimeLine {
  constructor() {
    this.list = el("ol", { class: "life" });
    this.note = el("p", { class: "muted" }, t("document.life_partial"));
    this.node = panel(t("document.life"), {}, this.list, this.note);
  }

  update(found, life) {
    this.note.hidden = life.is_whole;
    keyed(this.list, steps(found, life), (each) => each.key, makeStep, () => {}); // what has happened does not change
  }
}

function steps(found, { moments }) {
  return moments.map((each, place) => {
    const since = place > 0 ? each.at - moments[place - 1].at : null;
    return { ...each, since, most: found.max_attempts, key: `${each.kind} ${each.at} ${since}` };
  });
}

function makeStep(step) {
  const when = el("time", { datetime: new Date(step.at / 1_000).toISOString(), title: time(step.at) }, time(step.at));
  const since = step.since !== null && el("span", { class: "muted" }, `+${duration(step.since)}`);
  const worker = step.kind === "started" && step.worker && el("span", { class: "muted life-worker" }, `${t("document.fact_worker")}: ${step.worker}`);
  const words = t(`document.life_${step.kind}`, { attempt: step.attempt, most: step.most });
  const by = step.operator && el("p", { class: "muted life-by" }, step.why ? t("document.by_why", { name: step.operator, why: step.why }) : t("document.by", { name: step.operator }));
  return el("li", { class: `life-step state-${HOLDS[step.kind] ?? "waiting"}` }, el("p", { class: "life-what" }, words), el("p", { class: "muted life-when" }, when, since, worker), by, step.error !== null && errorOf(step.error));
}

/** Its first line; the rest of a long one can be unfolded. */
function errorOf(error) {
  const [line] = error.split("\n");
  const short = line.length > MOST_OF_LINE ? `${line.slice(0, MOST_OF_LINE)}…` : line;
  if (short === error) return el("p", { class: "document-error" }, error);
  const rest = short === line ? error.slice(line.length + 1) : error;
  return el("details", { class: "life-error" }, el("summary", { class: "document-error" }, short), el("pre", { class: "document-error", tabindex: "0", role: "group", "aria-label": t("document.error") }, rest));
}
