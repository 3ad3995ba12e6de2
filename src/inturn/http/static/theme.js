// Not a module: runs before the first paint, so that a dark page does not flash light.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("inturn.theme");
  } catch {
    // Storage is forbidden: the system's theme applies.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
