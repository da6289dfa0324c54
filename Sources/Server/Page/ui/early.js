// Runs before the first paint: the colours that were chosen. After it comes what the page does, so that reading the scripts
// keeps nobody from seeing the page. It is sent in the page, so addresses are the page's.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("side") === "closed") document.documentElement.dataset.side = "closed";
} catch {
  // Storage is blocked: the system's colours.
}
{
  const begin = () => import("./ui/app.js");
  // In the background nothing is painted.
  if (document.hidden) begin();
  else requestAnimationFrame(() => setTimeout(begin));
}
