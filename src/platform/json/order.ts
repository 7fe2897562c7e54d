/**
 * JavaScript's objects put names that are whole numbers before all others, smallest first. An object from a text that
 * has its names in another order carries that order. Copies by spread keep it. Pure: workflows use it, too.
 */

const ORDER = Symbol('order of names');

type Ordered = Readonly<Record<string, unknown>> & { readonly [ORDER]?: readonly string[] };

/** The object, whose entries `entriesOf` returns in this order. */
export function inOrder<T extends object>(object: T, names: Iterable<string>): T {
  const order = [...names];
  const own = Object.keys(object);
  if (order.length === own.length && order.every((name, at) => name === own[at])) return object;
  return Object.assign(object, { [ORDER]: order });
}

export const orderOf = (object: object): readonly string[] | null =>
  (object as Ordered)[ORDER] ?? null;

/** `Object.keys`, but in the order of the object's text; names that were added come last. */
export function namesOf(object: object): string[] {
  const own = Object.keys(object);
  const order = orderOf(object);
  if (order === null) return own;
  const known = new Set(own);
  return [...new Set([...order.filter((name) => known.has(name)), ...own])];
}

/** `Object.entries`, likewise. */
export const entriesOf = <T>(object: Readonly<Record<string, T>>): [name: string, value: T][] =>
  namesOf(object).map((name) => [name, object[name] as T]);

export function filtered<T>(
  object: Readonly<Record<string, T>>,
  keeps: (name: string, value: T) => boolean,
): Record<string, T> {
  const kept = entriesOf(object).filter(([name, value]) => keeps(name, value));
  return inOrder(
    Object.fromEntries(kept),
    kept.map(([name]) => name),
  );
}
