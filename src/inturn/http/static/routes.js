// The routes. A page's module is pages/<page>.js, its style pages/<page>.css, its texts the tables [page.<page>].

/**
 * @typedef {{ path: string, page: string, tab?: string, for?: "all" | "acting" }} Route
 * @typedef {{ route: Route, params: Record<string, string> }} Match
 */

/** @type {Route[]} */
const ROUTES = [
  { path: "/", page: "overview", for: "all" },
  { path: "/customers", page: "customers", for: "all" },
  { path: "/customers/:name", page: "customer" },
  { path: "/documents", page: "documents" },
  { path: "/documents/:id", page: "document" },
  { path: "/upload", page: "upload", for: "acting" },
  { path: "/failures", page: "failures", for: "all" },
  { path: "/queues", page: "queues", for: "all" },
  { path: "/tasks", page: "tasks", for: "all" },
  { path: "/tasks/:id", page: "task", for: "all" },
  { path: "/workers", page: "workers", for: "all" },
  { path: "/policy", page: "policy", for: "all" },
  { path: "/simulator", page: "policy", tab: "simulator", for: "all" },
  { path: "/priority", page: "priority" },
  { path: "/audit", page: "audit", for: "all" },
  { path: "/keys", page: "keys", for: "all" },
  { path: "/settings", page: "settings" },
  { path: "/signin", page: "signin" },
];

/** The side navigation, in groups: pages without parameters. */
export const NAVIGATION = [
  ["overview", "customers", "documents", "upload"],
  ["queues", "tasks", "workers", "failures"],
  ["policy", "priority"],
  ["audit", "keys", "settings"],
];

/**
 * `all` needs a user who sees all customers, `acting` one who may change something.
 * @param {Route} route
 * @param {import("./session.js").User | null} who
 */
export function isVisibleTo(route, who) {
  if (route.for === "all") return who !== null && who.sees_all;
  if (route.for === "acting") return who !== null && who.acts;
  return true;
}

/** @param {string} page */
export function routeOf(page) {
  const route = ROUTES.find((candidate) => candidate.page === page);
  if (route === undefined) throw new Error(`no page ${page}`);
  return route;
}

/**
 * The address that an old one leads to, now that its page is a tab of another; null if it is no such address.
 * @param {Match} match
 * @param {string} search
 */
export function movedUrl({ route }, search) {
  if (route.tab === undefined) return null;
  return `${routeOf(route.page).path}?${new URLSearchParams([["tab", route.tab], ...new URLSearchParams(search)])}`;
}

/**
 * Find the route of a path, with its parameters; null if there is none.
 * @param {string} path
 * @returns {Match | null}
 */
export function matchRoute(path) {
  const segments = path.split("/");
  for (const route of ROUTES) {
    const parts = route.path.split("/");
    if (parts.length !== segments.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = parts.every((part, index) => {
      if (!part.startsWith(":")) return part === segments[index];
      if (segments[index] === "") return false;
      try {
        params[part.slice(1)] = decodeURIComponent(segments[index]);
      } catch {
        return false;
      }
      return true;
    });
    if (fits) return { route, params };
  }
  return null;
}

/**
 * Build a page's address: pageUrl("customer", {name}), pageUrl("documents", {}, {state: "failed"}).
 * @param {string} page
 * @param {Record<string, string>} params
 * @param {Record<string, unknown>} query
 */
export function pageUrl(page, params = {}, query = {}) {
  const path = routeOf(page).path.replace(/:(\w+)/g, (_, name) => encodeURIComponent(params[name]));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const item of [value].flat()) search.append(name, String(item));
  return search.size > 0 ? `${path}?${search}` : path;
}
