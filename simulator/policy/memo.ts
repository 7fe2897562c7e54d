/** Remembers at most `limit` results by key; a full memory is emptied, which keeps it small and cheap. */
export function createMemo<Value>(limit: number): (key: string, make: () => Value) => Value {
  const known = new Map<string, Value>();
  return (key, make) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    if (known.size >= limit) known.clear();
    const value = make();
    known.set(key, value);
    return value;
  };
}
