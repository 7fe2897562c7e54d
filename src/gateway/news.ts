/** Wakes who waits for a change. Take `next` before looking: a change in between is then not missed. */
export interface News {
  next: () => Promise<void>;
  tell: () => void;
}

export function createNews(): News {
  let wake: () => void = () => undefined;
  let next: Promise<void> | null = null;
  return {
    next: () => (next ??= new Promise((resolve) => (wake = resolve))),
    tell: () => {
      next = null;
      wake();
    },
  };
}
