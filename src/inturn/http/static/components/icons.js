// Line icons of 24 by 24, one path each.

import { svg } from "../dom.js";

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  customers: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.3a3.5 3.5 0 0 1 0 6.4M18 14.2a6.5 6.5 0 0 1 3.5 5.8",
  documents: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  upload: "M12 16V4M7 9l5-5 5 5M4 16v4h16v-4",
  policy: "M4 6h10M18 6h2M4 12h4M12 12h8M4 18h12M20 18h0M16 4v4M10 10v4M18 16v4",
  priority: "M4 6h16M4 11h11M4 16h7M17 13v7M14 17l3 3 3-3",
  audit: "M5 4h14v16H5zM9 9h6M9 13h6M9 17h3",
  keys: "M14.5 14a5 5 0 1 0-4.6-3L3 18v3h4v-3h3v-3zM16 8h0",
  settings: "M12 15.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM12 3v3M12 18v3M4.2 7.5l2.6 1.5M17.2 15l2.6 1.5M4.2 16.5 6.8 15M17.2 9l2.6-1.5",
  preferences: "M3 5h11M8.5 3v2M11.5 5c-1 4-4 7-8 9M5.5 8c1 3 3.5 5 7 6M12 21l4.5-11L21 21M13.6 17.5h5.8",
  check: "M5 13l4.5 4.5L19 7",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l4.5 4.5",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  next: "M9 5l7 7-7 7",
  previous: "M15 5l-7 7 7 7",
  warning: "M12 4 2.5 20h19zM12 10v4M12 17h0",
  empty: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 2.5h4l1-2.5h5",
  offline: "M3 3l18 18M5 12a10 10 0 0 1 4-2.4M8.5 15.5a5 5 0 0 1 7 0M12 19h0M19 12a10 10 0 0 0-6-2.9",
  pause: "M8 5v14M16 5v14",
  queues: "M4 6h16M4 12h16M4 18h10M18 15v6M15 18h6",
  tasks: "M9 4h6v3H9zM9 5H5v16h14V5h-4M8.5 14l2.5 2.5 4.5-5",
  failures: "M12 3l9 9-9 9-9-9zM12 8v5M12 16h0",
  workers: "M4 8h16v11H4zM8 8V5h8v3M9 13h0M15 13h0",
  signout: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
};

/** @param {string} name */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
