/** What tests of the documentation read from a JSON Schema. */

export interface Shape {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  description?: string;
  properties?: Record<string, Shape>;
  required?: string[];
  items?: Shape;
  prefixItems?: Shape[];
  additionalProperties?: Shape | boolean;
  anyOf?: Shape[];
  oneOf?: Shape[];
  allOf?: Shape[];
}

export interface Field {
  /** `message_log[].role`; `*` is any key of a record. */
  place: string;
  shape: Shape;
  is_required: boolean;
}

/** Every field at any depth, in the schema's order. */
export function fieldsOf(shape: Shape, at = ''): Field[] {
  const { properties = {}, required = [], items, additionalProperties: more } = shape;
  const own = Object.entries(properties).flatMap(([name, inner]) => {
    const place = at === '' ? name : `${at}.${name}`;
    const field = { place, shape: inner, is_required: required.includes(name) };
    return [field, ...fieldsOf(inner, place)];
  });
  const variants = [...(shape.anyOf ?? []), ...(shape.oneOf ?? []), ...(shape.allOf ?? [])];
  return [
    ...own,
    ...variants.flatMap((variant) => fieldsOf(variant, at)),
    ...(items === undefined ? [] : fieldsOf(items, `${at}[]`)),
    ...(typeof more === 'object' ? fieldsOf(more, `${at}.*`) : []),
  ];
}

/** A type as people say it. */
export function typeText(shape: Shape): string {
  const { type, items, anyOf, oneOf } = shape;
  if (shape.const !== undefined) return `\`${JSON.stringify(shape.const)}\``;
  if (shape.enum !== undefined) return shape.enum.map((one) => `\`${String(one)}\``).join(', ');
  if (anyOf ?? oneOf) return [...new Set((anyOf ?? oneOf ?? []).map(typeText))].join(' or ');
  if (Array.isArray(type)) return type.map((one) => typeText({ ...shape, type: one })).join(' or ');
  if (shape.prefixItems !== undefined) return `[${shape.prefixItems.map(typeText).join(', ')}]`;
  if (type === 'array') return items === undefined ? 'list' : `list of ${severalText(items)}`;
  return { string: 'text', boolean: 'bool' }[type ?? ''] ?? type ?? 'anything';
}

const severalText = (items: Shape): string => {
  const text = typeText(items);
  if (text.startsWith('list of ')) return text.replace('list', 'lists');
  return /^[a-z]+$/.test(text) && text !== 'anything' ? `${text}s` : text;
};

/** The table of a schema's fields: what each is, and whether it may be absent. */
export function tableOf(shape: Shape): string {
  const rows = fieldsOf(shape).map(({ place, shape: field, is_required }) => {
    const type = `${typeText(field)}${is_required ? '' : '; may be absent'}`;
    return `| \`${place}\` | ${type} | ${field.description ?? ''} |`;
  });
  return ['| field | type | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}
