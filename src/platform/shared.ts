/**
 * One question at a time: when an engine is paused or updated, all its streams ask at once. One that comes while another
 * is on its way shares the next: what was sent before may say how things were before.
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
