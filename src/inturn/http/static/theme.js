// Not a module: it runs before the first paint, so that a dark page never flashes light.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("inturn.theme");
  } catch {
    // Storage can be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
