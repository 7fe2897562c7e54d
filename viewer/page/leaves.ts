/** Values of nested objects under the path that leads to them, as `sampling.top_p`; lists and empty objects stay whole. */
export function leavesOf(fields: Record<string, unknown>): [string, unknown][] {
  return Object.entries(fields).flatMap(([name, value]) => {
    const isNested = typeof value === 'object' && value !== null && !Array.isArray(value);
    const inner = isNested ? leavesOf(value as Record<string, unknown>) : [];
    return inner.length === 0
      ? [[name, value] as [string, unknown]]
      : inner.map(([path, leaf]): [string, unknown] => [`${name}.${path}`, leaf]);
  });
}
