import { useEffect, useState } from 'preact/hooks';

export const THEMES = ['system', 'light', 'dark'] as const;

const dark = matchMedia('(prefers-color-scheme: dark)');

/** Puts the theme on the page, as the reader or the reader's system wants it. */
export function useThemeSwitch(): [string, (theme: string) => void] {
  const [theme, set] = useState<string>('system');
  useEffect(() => {
    const apply = (): void => {
      const isDark = theme === 'dark' || (theme === 'system' && dark.matches);
      document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
    };
    apply();
    dark.addEventListener('change', apply);
    return () => {
      dark.removeEventListener('change', apply);
    };
  }, [theme]);
  return [theme, set];
}

/** Changes when colours do, for what CSS does not draw. */
export function useTheme(): number {
  const [times, set] = useState(0);
  useEffect(() => {
    const switched = new MutationObserver(() => {
      set((before) => before + 1);
    });
    switched.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      switched.disconnect();
    };
  }, []);
  return times;
}
