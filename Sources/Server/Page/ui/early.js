// Runs before the first paint: the colours that were chosen.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("side") === "closed") document.documentElement.dataset.side = "closed";
} catch {
  // Storage is blocked: the system's colours.
}
