// The routes. A page's module is pages/<page>.js, its style pages/<page>.css, its texts the tables [page.<page>].

const ROUTES = [
  { path: "/", page: "overview", for: "all" },
  { path: "/customers", page: "customers", for: "all" },
  { path: "/customers/:name", page: "customer" },
  { path: "/documents", page: "documents" },
  { path: "/documents/:id", page: "document" },
  { path: "/upload", page: "upload", for: "acting" },
  { path: "/policy", page: "policy", for: "all" },
  { path: "/simulator", page: "simulator", for: "all" },
  { path: "/priority", page: "priority" },
  { path: "/audit", page: "audit", for: "all" },
  { path: "/keys", page: "keys", for: "all" },
  { path: "/settings", page: "settings" },
  { path: "/signin", page: "signin" },
];

/** The side navigation, in groups: pages without parameters. */
export const NAVIGATION = [
  ["overview", "customers", "documents", "upload"],
  ["policy", "simulator", "priority"],
  ["audit", "keys", "settings"],
];

/** `all` needs a user who sees all customers, `acting` one who may change something. */
export function isVisibleTo(route, who) {
  if (route.for === "all") return who !== null && who.sees_all;
  if (route.for === "acting") return who !== null && who.acts;
  return true;
}

export function routeOf(page) {
  return ROUTES.find((route) => route.page === page);
}

/** Find the route of a path, with its parameters; null if there is none. */
export function matchRoute(path) {
  const segments = path.split("/");
  for (const route of ROUTES) {
    const parts = route.path.split("/");
    if (parts.length !== segments.length) continue;
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

/** Build a page's address: pageUrl("customer", {name}), pageUrl("documents", {}, {state: "failed"}). */
export function pageUrl(page, params = {}, query = {}) {
  const path = routeOf(page).path.replace(/:(\w+)/g, (_, name) => encodeURIComponent(params[name]));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const item of [value].flat()) search.append(name, item);
  return search.size > 0 ? `${path}?${search}` : path;
}
