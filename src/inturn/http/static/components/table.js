// A table that updates its rows in place, so that focus, selection and scroll survive.

import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";
import { icon } from "./icons.js";
import { tableBox } from "./table_box.js";

/** @import { Child } from "../dom.js" */

/**
 * @template Row
 * @typedef {{
 *   key: string,
 *   label: Child,
 *   value: (row: Row) => string | number | boolean | null | undefined,
 *   cell?: (row: Row) => Child,
 *   update?: (node: any, row: Row) => void,
 *   name?: (row: Row) => string | number | null,
 *   sortable?: boolean,
 *   align?: "end",
 *   className?: string,
 * }} Column
 */

/** @typedef {{ key: string, isDown: boolean }} Sort */

/**
 * columns: [{key, label, value(row), cell?(row), update?(node, row), name?(row), sortable?, align?: "end", className?}]
 *   `value` is a text, a number or null; the cell changes when it changes. Without `cell` the value itself is shown.
 *   `cell` makes a node; `update` changes that node in place, without it the node is made again. `name` of the first
 *   column is the row's name for screen readers, by default its value.
 * keyOf(row) is a row's identity. caption is for screen readers. sort: {key, isDown}; onSort(sort) applies a new sort.
 * hrefOf(row) makes the first cell a link, and the whole row clickable. selectable adds checkboxes: see `selection`.
 * empty is a node shown without rows. Returns {node, update(rows), setSort(sort), selection}.
 * @template Row
 * @template {string | number} Key
 * @param {{
 *   columns: Column<Row>[],
 *   keyOf: (row: Row) => Key,
 *   caption: string,
 *   sort?: Sort | null,
 *   onSort?: (sort: Sort) => unknown,
 *   hrefOf?: ((row: Row) => string) | null,
 *   selectable?: boolean,
 *   onSelect?: (selection: Set<Key>) => unknown,
 *   empty?: Child,
 * }} options
 */
export function table({ columns, keyOf, caption, sort = null, onSort = () => {}, hrefOf = null, selectable = false, onSelect = () => {}, empty = null }) {
  const body = el("tbody");
  const head = el("tr");
  /** @type {Set<Key>} */
  const selection = new Set();
  let order = sort;
  /** @type {Row[]} */
  let shown = [];
  /** @type {HTMLInputElement} */
  const all = el("input", { type: "checkbox", "aria-label": t("shell.select_all"), on: { change: () => selectAll(all.checked) } });
  const node = tableBox(
    caption,
    el("table", { class: "table" }, el("caption", { class: "hidden" }, caption), el("thead", {}, head), body),
    empty && el("div", { class: "table-empty" }, empty),
  );

  /** @typedef {HTMLTableRowElement & { row: Row, box: HTMLInputElement, shown: HTMLTableCellElement[], values: unknown[] }} RowNode */

  function drawHead() {
    fill(head, selectable && el("th", { class: "cell-select" }, all), columns.map(heading));
  }

  /** @param {Column<Row>} column */
  function heading(column) {
    const props = { scope: "col", class: classOf(column) };
    if (!column.sortable) return el("th", props, column.label);
    const isSorted = order?.key === column.key;
    const button = el(
      "button",
      {
        type: "button",
        class: "sort",
        on: { click: () => onSort({ key: column.key, isDown: isSorted ? !order?.isDown : column.align === "end" }) },
      },
      column.label,
      isSorted ? icon(order?.isDown ? "down" : "up") : null,
    );
    return el("th", { ...props, "aria-sort": isSorted ? (order?.isDown ? "descending" : "ascending") : "none" }, button);
  }

  /** @param {Row} row */
  function makeRow(row) {
    const cells = columns.map((column, index) => {
      const cell = el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: classOf(column) });
      return cell;
    });
    /** @type {HTMLInputElement} */
    const box = el("input", { type: "checkbox", on: { change: () => select(keyOf(tr.row), box.checked) } });
    const line = el("tr", { class: hrefOf ? "is-link" : null, on: hrefOf ? { click: openRow } : {} }, selectable && el("td", { class: "cell-select" }, box), cells);
    /** @type {RowNode} */
    const tr = Object.assign(line, { row, box, shown: cells, values: [] });
    updateRow(tr, row);
    return tr;
  }

  /**
   * @param {RowNode} tr
   * @param {Row} row
   */
  function updateRow(tr, row) {
    tr.row = row;
    columns.forEach((column, index) => {
      const value = column.value(row);
      if (tr.values[index] === value && tr.values.length > index) return;
      const isFirst = tr.values.length <= index;
      tr.values[index] = value;
      show(tr.shown[index], column, row, value, { isFirst, isName: index === 0 });
    });
    if (selectable) {
      tr.box.checked = selection.has(keyOf(row));
      setProp(tr.box, "aria-label", t("shell.select_row", { name: String((columns[0].name ?? columns[0].value)(row)) }));
    }
  }

  /**
   * @param {HTMLElement} cell
   * @param {Column<Row>} column
   * @param {Row} row
   * @param {ReturnType<Column<Row>["value"]>} value
   * @param {{ isFirst: boolean, isName: boolean }} options
   */
  function show(cell, column, row, value, { isFirst, isName }) {
    if (!isFirst && column.update) {
      column.update(isName && hrefOf ? cell.firstChild?.firstChild : cell.firstChild, row);
      return;
    }
    const content = column.cell ? column.cell(row) : String(value ?? "–");
    if (isName && hrefOf) fill(cell, el("a", { href: hrefOf(row) }, content));
    else if (content instanceof Node) fill(cell, content);
    else setText(cell, String(content));
  }

  /** @param {MouseEvent} event */
  function openRow(event) {
    if (/** @type {Element} */ (event.target).closest("a, button, input, label") || String(getSelection())) return;
    /** @type {HTMLElement | null | undefined} */ (/** @type {Element | null} */ (event.currentTarget)?.querySelector("a[href]"))?.click();
  }

  /**
   * @param {Key} key
   * @param {boolean} isOn
   */
  function select(key, isOn) {
    if (isOn) selection.add(key);
    else selection.delete(key);
    marked();
  }

  /** @param {boolean} isOn */
  function selectAll(isOn) {
    for (const row of shown) {
      if (isOn) selection.add(keyOf(row));
      else selection.delete(keyOf(row));
    }
    for (const tr of /** @type {Iterable<RowNode>} */ (body.children)) tr.box.checked = isOn;
    marked();
  }

  function marked() {
    const n = shown.filter((row) => selection.has(keyOf(row))).length;
    all.checked = n > 0 && n === shown.length;
    all.indeterminate = n > 0 && n < shown.length;
    onSelect(selection);
  }

  drawHead();
  return {
    node,
    selection,
    setSort(/** @type {Sort | null} */ wanted) {
      order = wanted;
      const focused = [...head.children].findIndex((cell) => cell.contains(document.activeElement));
      drawHead();
      if (focused >= 0) /** @type {HTMLElement | null} */ (head.children[focused].querySelector("button, input"))?.focus();
    },
    update(/** @type {Row[]} */ rows) {
      shown = rows;
      reconcileChildren(body, rows, keyOf, makeRow, updateRow);
      node.classList.toggle("is-empty", rows.length === 0);
      if (selectable) marked();
    },
  };
}

/** @param {Pick<Column<never>, "align" | "className">} column */
function classOf(column) {
  return [column.align === "end" ? "cell-end" : null, column.className].filter(Boolean).join(" ") || null;
}
