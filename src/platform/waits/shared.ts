/**
 * One question at a time: all streams of an engine ask at once when it is paused or updated. A question that comes
 * while another is in flight shares the next one, because an answer in flight may already be outdated.
 */
export function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let asking: Promise<T> | null = null;
  let next: Promise<T> | null = null;
  const send = (): Promise<T> => {
    next = null;
    asking = ask().finally(() => {
      asking = null;
    });
    return asking;
  };
  return () => {
    if (next !== null) return next;
    if (asking === null) return send();
    next = asking.then(send, send);
    return next;
  };
}

/** Asks once and keeps the answer. After a failure it asks again: what was missing may be there by then. */
export function onceItSucceeds<Asked extends unknown[], T>(
  ask: (...asked: Asked) => Promise<T>,
): (...asked: Asked) => Promise<T> {
  let kept: Promise<T> | null = null;
  return (...asked) =>
    (kept ??= ask(...asked).catch((error: unknown) => {
      kept = null;
      throw error;
    }));
}
