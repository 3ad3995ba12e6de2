// Run in the page under test: everything that is wrong with how it looks, in words. `texts` are those of the page's
// language, `english` those of the source.
({ texts, english }) => {
  const wrong = [];
  const SCROLLERS = ".table-box, .chips, [role=region][tabindex], textarea, pre[tabindex], .side, dialog, html, body";
  const flat = (given) => new Set(Object.values(given).flatMap((each) => (typeof each === "string" ? [each] : Object.values(each))));
  const own = flat(texts);
  const foreign = new Set([...flat(english)].filter((each) => !own.has(each) && /[a-z]{3}/.test(each)));

  const isSeen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
  const isForReaders = (node) => {
    for (let each = node; each !== null; each = each.parentElement) if (getComputedStyle(each).clipPath === "inset(50%)") return true;
    return false;
  };
  const named = (node) => {
    const parent = node.nodeType === 3 ? node.parentElement : node;
    return `${parent.tagName.toLowerCase()}${parent.className.baseVal ?? (parent.className && `.${String(parent.className).split(" ")[0]}`)}`;
  };
  const short = (text) => JSON.stringify(text.trim().slice(0, 40));

  // -- the page as a whole
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) {
    const widest = [...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > root.clientWidth + 1 && isSeen(each) && !each.closest(".table-box"));
    wrong.push(`the page is ${root.scrollWidth - root.clientWidth}px wider than the window: ${widest.slice(0, 3).map(named).join(", ")}`);
  }
  for (const each of document.querySelectorAll("body *")) {
    if (each instanceof SVGElement || !isSeen(each)) continue;
    const flow = getComputedStyle(each).overflowX;
    if ((flow === "auto" || flow === "scroll") && each.scrollWidth > each.clientWidth + 1 && !each.matches(SCROLLERS)) wrong.push(`${named(each)} scrolls sideways`);
  }
  for (const each of document.getAnimations()) {
    const { duration } = each.effect.getTiming();
    if (each.playState === "running" && duration > 50) wrong.push(`${named(each.effect.target)} moves, though motion is to be reduced`);
  }

  // -- every text
  const runs = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("option, script, style, noscript, title, textarea") || !isSeen(parent)) continue;
    said(node.data, named(node));
    if (isForReaders(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) if (rect.width > 1 && rect.height > 1) runs.push({ node, rect: clipped(node, rect) });
  }
  for (const each of document.querySelectorAll("[aria-label], [title], [placeholder]")) {
    for (const name of ["aria-label", "title", "placeholder"]) if (each.hasAttribute(name)) said(each.getAttribute(name), `${named(each)} ${name}`);
  }

  function said(text, where) {
    if (/\{\w+\}|\bundefined\b|\bNaN\b|\[object |^null$|Infinity/.test(text)) wrong.push(`${where} says ${short(text)}`);
    if (/^[a-z]+\.[a-z_]+$/.test(text.trim()) && !/\.(pdf|txt|db|example|local)$/.test(text.trim())) wrong.push(`${where} shows a key: ${short(text)}`);
    if (foreign.has(text.trim())) wrong.push(`${where} is not translated: ${short(text)}`);
  }

  // What is left of a text inside all that clip it; cut texts are told, but for names that end in dots on purpose.
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
        if (isOut && !isDotted && !box.matches(".hidden")) wrong.push(`${named(node)} is cut at the side: ${short(node.data)}`);
      }
      if ((y === "hidden" || y === "clip") && (bottom > edge.bottom + 2 || top < edge.top - 2)) wrong.push(`${named(node)} is cut: ${short(node.data)}`);
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, right, top, bottom };
  }

  // -- lists to choose from and fields: what is chosen or hinted at must fit
  const pen = document.createElement("canvas").getContext("2d");
  for (const each of document.querySelectorAll("select, input[placeholder]")) {
    if (!isSeen(each)) continue;
    const style = getComputedStyle(each);
    pen.font = style.font;
    const text = each.tagName === "SELECT" ? (each.selectedOptions[0]?.text ?? "") : each.placeholder;
    const room = each.clientWidth - parseFloat(style.paddingLeft) - (each.tagName === "SELECT" ? 18 : parseFloat(style.paddingRight));
    if (pen.measureText(text).width > room + 1) wrong.push(`${named(each)} has no room for ${short(text)}`);
  }

  // -- no two texts in one place
  const whole = runs.filter(({ rect }) => rect.right - rect.left > 2 && rect.bottom - rect.top > 4);
  whole.sort((one, other) => one.rect.top - other.rect.top);
  for (let first = 0; first < whole.length; first += 1) {
    const { node, rect } = whole[first];
    for (let second = first + 1; second < whole.length && whole[second].rect.top < rect.bottom; second += 1) {
      const other = whole[second];
      if (other.node === node) continue;
      const across = Math.min(rect.right, other.rect.right) - Math.max(rect.left, other.rect.left);
      const down = Math.min(rect.bottom, other.rect.bottom) - Math.max(rect.top, other.rect.top);
      // Lines stand close: letters touch only when a third of a line is shared.
      const line = Math.min(rect.bottom - rect.top, other.rect.bottom - other.rect.top);
      if (across > 2 && down > line / 3 && !isAbove(node, other.node)) wrong.push(`${short(node.data)} and ${short(other.node.data)} overlap`);
    }
  }

  /** What is fixed or sticky stands above the rest on purpose. */
  function isAbove(one, other) {
    const layer = (node) => {
      for (let each = node.parentElement; each !== null; each = each.parentElement) if (["fixed", "sticky"].includes(getComputedStyle(each).position)) return each;
      return null;
    };
    return layer(one) !== layer(other);
  }

  return [...new Set(wrong)];
};
