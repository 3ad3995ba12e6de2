// Runs in the page under test and returns its layout and text problems. `texts` are those of the page's language,
// `english` those of the source.
/** @typedef {{ left: number, right: number, top: number, bottom: number }} Rect */
/** @typedef {Record<string, string | Record<string, string>>} Texts */

/** @param {{ texts: Texts, english: Texts }} arg */
({ texts, english }) => {
  /** @type {string[]} */
  const problems = [];
  const SCROLLERS = ".table-box, .chips, [role=region][tabindex], textarea, pre[tabindex], .side, dialog, html, body";
  const flat = (/** @type {Texts} */ entries) => new Set(Object.values(entries).flatMap((entry) => (typeof entry === "string" ? [entry] : Object.values(entry))));
  const own = flat(texts);
  const foreign = new Set([...flat(english)].filter((entry) => !own.has(entry) && /[a-z]{3}/.test(entry)));

  const isSeen = (/** @type {Element} */ node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
  const isForReaders = (/** @type {Element} */ node) => {
    for (let element = /** @type {Element | null} */ (node); element !== null; element = element.parentElement) if (getComputedStyle(element).clipPath === "inset(50%)") return true;
    return false;
  };
  const describe = (/** @type {Node | null} */ node) => {
    const parent = node instanceof Element ? node : node?.parentElement;
    const name = parent?.getAttribute("class")?.split(" ")[0];
    return `${parent?.tagName.toLowerCase()}${name ? `.${name}` : ""}`;
  };
  const short = (/** @type {string} */ text) => JSON.stringify(text.trim().slice(0, 40));

  // -- the page as a whole
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) {
    const widest = [...document.querySelectorAll("main *")].filter((element) => element.getBoundingClientRect().right > root.clientWidth + 1 && isSeen(element) && !element.closest(".table-box"));
    problems.push(`the page is ${root.scrollWidth - root.clientWidth}px wider than the window: ${widest.slice(0, 3).map(describe).join(", ")}`);
  }
  for (const element of document.querySelectorAll("body *")) {
    if (element instanceof SVGElement || !isSeen(element)) continue;
    const flow = getComputedStyle(element).overflowX;
    if ((flow === "auto" || flow === "scroll") && element.scrollWidth > element.clientWidth + 1 && !element.matches(SCROLLERS)) problems.push(`${describe(element)} scrolls sideways`);
  }
  for (const animation of document.getAnimations()) {
    const effect = /** @type {KeyframeEffect} */ (animation.effect);
    if (animation.playState === "running" && Number(effect.getTiming().duration) > 50) problems.push(`${describe(effect.target)} moves, though motion is to be reduced`);
  }

  // -- every text
  /** @type {{ node: Text, rect: Rect }[]} */
  const runs = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let next = walker.nextNode(); next !== null; next = walker.nextNode()) {
    const node = /** @type {Text} */ (next);
    const parent = node.parentElement;
    if (parent === null || !node.data.trim() || parent.closest("option, script, style, noscript, title, textarea") || !isSeen(parent)) continue;
    checkText(node.data, describe(node));
    if (isForReaders(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) if (rect.width > 1 && rect.height > 1) runs.push({ node, rect: clipped(node, rect) });
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]")) {
    for (const name of ["aria-label", "title", "placeholder"]) if (element.hasAttribute(name)) checkText(element.getAttribute(name) ?? "", `${describe(element)} ${name}`);
  }

  /**
   * @param {string} text
   * @param {string} where
   */
  function checkText(text, where) {
    if (/\{\w+\}|\bundefined\b|\bNaN\b|\[object |^null$|Infinity/.test(text)) problems.push(`${where} says ${short(text)}`);
    if (/^[a-z]+\.[a-z_]+$/.test(text.trim()) && !/\.(pdf|txt|db|example|local)$/.test(text.trim())) problems.push(`${where} shows a key: ${short(text)}`);
    if (foreign.has(text.trim())) problems.push(`${where} is not translated: ${short(text)}`);
  }

  /**
   * The visible part of a text inside the boxes that clip it. Cut texts are problems, but for names with an ellipsis.
   * @param {Text} node
   * @param {Rect} rect
   * @returns {Rect}
   */
  function clipped(node, rect) {
    let { left, right, top, bottom } = rect;
    for (let box = node.parentElement; box !== null && box !== document.body; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (style.position === "fixed") break;
      const [x, y] = [style.overflowX, style.overflowY];
      if (x === "visible" && y === "visible") continue;
      const edge = box.getBoundingClientRect();
      const isDotted = style.textOverflow === "ellipsis" && !own.has(node.data.trim());
      if (x === "hidden" || x === "clip") {
        const isOut = right > edge.right + 1 || left < edge.left - 1;
        if (isOut && !isDotted && !box.matches(".hidden")) problems.push(`${describe(node)} is cut at the side: ${short(node.data)}`);
      }
      if ((y === "hidden" || y === "clip") && (bottom > edge.bottom + 2 || top < edge.top - 2)) problems.push(`${describe(node)} is cut: ${short(node.data)}`);
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, right, top, bottom };
  }

  // -- selects and fields: the chosen option or the placeholder must fit
  const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  for (const element of /** @type {NodeListOf<HTMLSelectElement | HTMLInputElement>} */ (document.querySelectorAll("select, input[placeholder]"))) {
    if (!isSeen(element)) continue;
    const style = getComputedStyle(element);
    pen.font = style.font;
    const text = element instanceof HTMLSelectElement ? (element.selectedOptions[0]?.text ?? "") : element.placeholder;
    const room = element.clientWidth - parseFloat(style.paddingLeft) - (element.tagName === "SELECT" ? 18 : parseFloat(style.paddingRight));
    if (pen.measureText(text).width > room + 1) problems.push(`${describe(element)} has no room for ${short(text)}`);
  }

  // -- texts must not overlap
  const whole = runs.filter(({ rect }) => rect.right - rect.left > 2 && rect.bottom - rect.top > 4);
  whole.sort((one, other) => one.rect.top - other.rect.top);
  for (let first = 0; first < whole.length; first += 1) {
    const { node, rect } = whole[first];
    for (let second = first + 1; second < whole.length && whole[second].rect.top < rect.bottom; second += 1) {
      const other = whole[second];
      if (other.node === node) continue;
      const across = Math.min(rect.right, other.rect.right) - Math.max(rect.left, other.rect.left);
      const down = Math.min(rect.bottom, other.rect.bottom) - Math.max(rect.top, other.rect.top);
      // Lines stand close: letters touch only when they share a third of a line's height.
      const line = Math.min(rect.bottom - rect.top, other.rect.bottom - other.rect.top);
      if (across > 2 && down > line / 3 && !isAbove(node, other.node)) problems.push(`${short(node.data)} and ${short(other.node.data)} overlap`);
    }
  }

  /**
   * Whether one of two texts is fixed or sticky, and so above the other on purpose.
   * @param {Text} one
   * @param {Text} other
   */
  function isAbove(one, other) {
    const layer = (/** @type {Text} */ node) => {
      for (let element = node.parentElement; element !== null; element = element.parentElement) if (["fixed", "sticky"].includes(getComputedStyle(element).position)) return element;
      return null;
    };
    return layer(one) !== layer(other);
  }

  return [...new Set(problems)];
};
