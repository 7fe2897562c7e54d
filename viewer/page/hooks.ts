import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Address } from './address.js';
import { hrefOf, parseAddress } from './address.js';

/** null: the address names nothing that the page has. */
export function useAddress(): Address | null {
  const [address, set] = useState(() => parseAddress(location.hash));
  useEffect(() => {
    const read = (): void => {
      set(parseAddress(location.hash));
    };
    addEventListener('hashchange', read);
    return () => {
      removeEventListener('hashchange', read);
    };
  }, []);
  return address;
}

export function go(address: Partial<Address>): void {
  location.hash = hrefOf(address);
}

/** Goes where a link leads, and once the page has it, the element is seen. With ctrl the link opens a tab as ever. */
export const goAndSee =
  (address: Partial<Address>, id: string) =>
  (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(address);
    // By the next frame the page has drawn it.
    requestAnimationFrame(() => document.getElementById(id)?.scrollIntoView());
  };

/** Keeps the address of what is looked at, such as a token, and draws nothing again. */
export function note(address: Partial<Address>): void {
  history.replaceState(null, '', hrefOf(address));
}

/** Without a step back: for another order of the same list. */
export function goQuietly(address: Partial<Address>): void {
  note(address);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export type Loaded<T> =
  { state: 'loading' } | { state: 'failed'; message: string } | { state: 'there'; value: T };

/** Loads again when the key changes; an answer that comes too late is dropped. */
export function useLoaded<T>(key: string, load: () => Promise<T>): Loaded<T> {
  const [loaded, set] = useState<{ key: string; it: Loaded<T> }>({
    key,
    it: { state: 'loading' },
  });
  useEffect(() => {
    let isWanted = true;
    const keep = (it: Loaded<T>): void => {
      if (isWanted) set({ key, it });
    };
    load().then(
      (value) => {
        keep({ state: 'there', value });
      },
      (error: unknown) => {
        keep({ state: 'failed', message: error instanceof Error ? error.message : String(error) });
      },
    );
    return () => {
      isWanted = false;
    };
  }, [key]);
  return loaded.key === key ? loaded.it : { state: 'loading' };
}

/** State that outlives its view: who comes back to one of the last few views finds what was read. */
export function useKept<T>(key: string, first: T): [T, (change: (before: T) => T) => void] {
  const [value, set] = useState((kept.get(key) as T | undefined) ?? first);
  kept.delete(key);
  kept.set(key, value);
  const [oldest = key] = kept.keys();
  if (kept.size > MOST_KEPT) kept.delete(oldest);
  return [value, set];
}

const MOST_KEPT = 16;
const kept = new Map<string, unknown>();

/** Keys of the whole page. A key that a field or a widget takes is its own, and an open dialog takes all. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const { target } = event;
      if (document.querySelector('dialog[open]') !== null) return;
      const isTyped = target instanceof HTMLElement && target.matches('input, select, textarea');
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyped && event.key !== 'Escape') return;
      const act = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined;
      if (act === undefined) return;
      event.preventDefault();
      act(event);
    };
    addEventListener('keydown', onKey);
    return () => {
      removeEventListener('keydown', onKey);
    };
  }, []);
}

/** An element's inner size and how far it is scrolled, in whole steps: within one, nothing is drawn anew. */
export function useBox(
  ref: RefObject<HTMLElement | null>,
  step = 1,
): { top: number; width: number; height: number } {
  const [box, set] = useState({ top: 0, width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const measure = (): void => {
      const top = Math.floor(element.scrollTop / step) * step;
      const { clientWidth: width, clientHeight: height } = element;
      set((last) =>
        last.top === top && last.width === width && last.height === height
          ? last
          : { top, width, height },
      );
    };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  return box;
}

/** In pixels, as the reader's settings have it. */
export const remPixels = (): number =>
  Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
