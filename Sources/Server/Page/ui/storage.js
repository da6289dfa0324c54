// The small stores of a browser, each of which may be blocked: then it keeps nothing.

const keeper = (area) => ({
  get(name) {
    try {
      return window[area].getItem(name);
    } catch {
      return null;
    }
  },
  /// Keeps a text by its name; null forgets it.
  set(name, value) {
    try {
      if (value === null) window[area].removeItem(name);
      else window[area].setItem(name, value);
    } catch {
      // It lives as long as the page.
    }
  },
});

/// Kept in this browser, and kept for this tab.
export const [local, tab] = [keeper("localStorage"), keeper("sessionStorage")];
