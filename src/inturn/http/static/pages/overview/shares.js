// Who uses the capacity: actual shares of worker time against fair ones.

import { el, reconcileChildren, setProp, setText } from "../../dom.js";
import { duration, sharePercent } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { panel } from "../../components/panel.js";
import { largestShare, shareBar } from "../../components/share_bar.js";

const SECOND = 1_000_000;
const MAX_CUSTOMERS = 5;

export class SharesList {
  constructor() {
    this.list = el("ul", { class: "shares" });
    this.none = el("p", { class: "muted" }, t("overview.no_work_lately"));
    const legend = el("ul", { class: "legend" }, el("li", { class: "series-a" }, t("overview.received")), el("li", { class: "legend-mark" }, t("overview.due")));
    this.node = panel(t("overview.shares"), { actions: legend, hint: t("overview.shares_hint") }, this.none, this.list);
  }

  /** @param {Api.Overview} overview */
  update(overview) {
    const rows = overview.top_customers.slice(0, MAX_CUSTOMERS);
    const most = largestShare(rows);
    const update = (/** @type {ReturnType<typeof makeNode>} */ node, /** @type {Api.TopCustomer} */ row) => {
      node.bar.update(row, most);
      setText(node.numbers, t("overview.of_due", { received: sharePercent(row.received), due: sharePercent(row.due) }));
      setText(node.used, t("overview.share_used", { time: duration(row.worker_seconds * SECOND), n: row.documents }));
      setProp(node.over, "hidden", !row.is_over);
    };
    const makeNode = (/** @type {Api.TopCustomer} */ row) => {
      const bar = shareBar();
      const numbers = el("span", { class: "share-numbers" });
      const used = el("span", { class: "share-used" });
      const over = el("span", { class: "badge share-over", title: t("overview.over_share_hint") }, t("overview.over_share"));
      const link = el("a", { class: "share", href: pageUrl("customer", { name: row.customer }) }, el("bdi", { class: "share-name" }, row.customer), used, bar.node, numbers, over);
      return Object.assign(el("li", {}, link), { bar, numbers, used, over });
    };
    const make = (/** @type {Api.TopCustomer} */ row) => {
      const node = makeNode(row);
      update(node, row);
      return node;
    };
    reconcileChildren(this.list, rows, (row) => row.customer, make, update);
    this.none.hidden = rows.length > 0;
  }
}
