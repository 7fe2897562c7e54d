/** What tests of the documentation read from a JSON Schema. */

export interface Shape {
  /** Of a text with a form of its own: a duration, a size. */
  title?: string;
  default?: unknown;
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
  const { type, items, anyOf, oneOf, title } = shape;
  if (title !== undefined) return title;
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

/** The table of a schema's fields: what each is, and whether it may be absent. Fields of two parts stand there once. */
export function tableOf(shape: Shape): string {
  const fields = fieldsOf(shape);
  const repeats = repeatsOf(fields);
  const isRepeated = (place: string): boolean =>
    [...repeats.keys()].some((part) => isBelow(part, place));
  const rows = fields
    .filter(({ place }) => !isRepeated(place))
    .map(({ place, shape: field, is_required }) => {
      const type = `${typeText(field)}${is_required ? '' : '; may be absent'}`;
      const first = repeats.get(place);
      const meaning = `${field.description ?? ''}${first === undefined ? '' : `. Its fields: see \`${first}\``}`;
      return `| \`${place}\` | ${type} | ${meaning} |`;
    });
  return ['| field | type | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}

/** Parts with the fields of another one, which stands less deep or before them: its place, by theirs. */
function repeatsOf(fields: readonly Field[]): Map<string, string> {
  const firsts = new Map<string, string>();
  const repeats = new Map<string, string>();
  for (const { place } of fields.toSorted((a, b) => depthOf(a) - depthOf(b))) {
    const inner = fields.filter((one) => isBelow(place, one.place));
    if (inner.length === 0 || repeats.has(place)) continue;
    const text = JSON.stringify(
      inner.map((one) => ({ ...one, place: one.place.slice(place.length) })),
    );
    const first = firsts.get(text);
    if (first === undefined) firsts.set(text, place);
    else if (first !== place) repeats.set(place, first);
  }
  return repeats;
}

const depthOf = ({ place }: Field): number => place.split('.').length;

const isBelow = (part: string, place: string): boolean =>
  place.startsWith(`${part}.`) || place.startsWith(`${part}[`);

/** The tables of temporal.yaml: its own keys, and those of each part. */
export function configurationOf(shape: Shape): string {
  const { temporal, store, generation, environments, worker } = shape.properties ?? {};
  const kinds = valuesOf(environments).oneOf ?? [];
  const agents = kinds.filter((kind) => kind.properties?.['dialect_defaults'] !== undefined);
  const [ofOne = [], ...ofOthers] = agents.map(settingRows);
  const gateway = ofOne.filter((row) => ofOthers.every((rows) => rows.includes(row)));
  return [
    settingsTable(onlyTop(shape)),
    '## `temporal`',
    settingsTable(temporal),
    ...(store?.oneOf ?? []).flatMap((one) => [
      `## \`store\` of kind ${kindOf(one)}`,
      settingsTable(one),
    ]),
    '## `generation`, each service',
    settingsTable(valuesOf(generation)),
    '## `worker`',
    settingsTable(worker),
    '## `environments`, each by its kind',
    ...kinds.flatMap((one) => [
      `### ${kindOf(one)}`,
      settingTableOf(settingRows(one).filter((row) => !gateway.includes(row))),
      ...(agents.includes(one) ? ['And the keys of the [gateway](#gateway-of-agents).'] : []),
    ]),
    '### Gateway of agents',
    `Of kinds ${agents.map(kindOf).join(' and ')}:`,
    settingTableOf(gateway),
  ].join('\n\n');
}

const kindOf = (shape: Shape): string => `\`${String(shape.properties?.['kind']?.const)}\``;

const valuesOf = (record: Shape | undefined): Shape =>
  typeof record?.additionalProperties === 'object' ? record.additionalProperties : {};

/** Without what its parts have. */
const onlyTop = ({ properties = {}, ...shape }: Shape): Shape => ({
  ...shape,
  properties: Object.fromEntries(
    Object.entries(properties).map(([name, { description = '', ...own }]) => {
      const isPart = own.type === 'object' || own.oneOf !== undefined;
      return [name, isPart ? { description, type: 'object' } : { ...own, description }];
    }),
  ),
});

/** The table of what may be set: the default, the type and the meaning of each. */
export const settingsTable = (shape: Shape = {}): string => settingTableOf(settingRows(shape));

const settingTableOf = (rows: string[]): string =>
  ['| key | default | type | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');

const settingRows = (shape: Shape): string[] => [
  ...new Set(
    fieldsOf(shape).map(({ place, shape: field, is_required }) => {
      const value = is_required ? 'required' : defaultText(field);
      return `| \`${place}\` | ${value} | ${typeText(field)} | ${field.description ?? ''} |`;
    }),
  ),
];

function defaultText({ default: value }: Shape): string {
  if (value === undefined) return '';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}
