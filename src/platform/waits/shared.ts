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
