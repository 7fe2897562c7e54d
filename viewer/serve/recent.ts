/** Answers of the last second, and those that are on their way: many pages that ask for the same cost what one does. */
export type Recent = <T>(key: string, ask: () => Promise<T>) => Promise<T>;

export function createRecent(keep_ms = 1000): Recent {
  const known = new Map<string, Promise<unknown>>();
  return <T>(key: string, ask: () => Promise<T>): Promise<T> => {
    const found = known.get(key);
    if (found !== undefined) return found as Promise<T>;
    const asked = ask();
    known.set(key, asked);
    const forget = (): void => {
      known.delete(key);
    };
    asked.then(() => setTimeout(forget, keep_ms).unref(), forget);
    return asked;
  };
}
