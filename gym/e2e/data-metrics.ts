import { KeptJson } from '../../src/platform/json/kept.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject, jsonNumber, numberOf } from '../json/exact.js';
import { entriesOf } from '../../src/platform/json/order.js';
import { dumpJson } from '../python/json.js';
import { floatText, formatFixed } from '../../src/platform/python/numbers.js';
import { isCreateParams } from './create-params.js';

/** Upstream's statistics of prepared rows (`DatasetMetrics` at 07d6b0d): a running mean and spread, and the ends. */
interface Spread {
  total: number;
  mean: number;
  /** Sum of squared distances from the mean. */
  squares: number;
  min: number;
  max: number;
}

const emptySpread = (): Spread => ({
  total: 0,
  mean: 0,
  squares: 0,
  min: Infinity,
  max: -Infinity,
});

function observe(spread: Spread, value: number): void {
  spread.min = Math.min(spread.min, value);
  spread.max = Math.max(spread.max, value);
  spread.total += 1;
  const delta = value - spread.mean;
  spread.mean += delta / spread.total;
  spread.squares += delta * (value - spread.mean);
}

/** Distinct texts, and how many there were. */
interface Texts {
  distinct: Set<string>;
  total: number;
}

/** Fields of every row, by upstream's names, in its order. */
const OF_ROWS = [
  'Number of tools',
  'Json-dumped number of words (proxy for token count)',
  'Number of turns',
  'Temperature',
] as const;

export type DataMetrics = ReturnType<typeof createDataMetrics>;

export function createDataMetrics() {
  let examples = 0;
  const ofRows = OF_ROWS.map((name) => [name, emptySpread()] as const);
  const fields = new Map<string, Spread | Texts>();
  let own = new Map<string, Spread | Texts>();
  return {
    /** Begins another data set: its own fields replace those of the ones before. */
    begin: (): void => {
      own = new Map();
    },
    /** A row, as often as it is repeated; one that is no request of the Responses API is not counted, as upstream's. */
    add: (row: JsonObject, repeats: number): void => {
      const params = row['responses_create_params'];
      if (!isCreateParams(params)) return;
      for (let repeat = 0; repeat < repeats; repeat++) {
        examples += 1;
        for (const [at, value] of numbersOf(params).entries()) {
          const [, spread] = ofRows[at] ?? [];
          if (value !== null && spread !== undefined) observe(spread, value);
        }
        observeFields(row, own);
      }
      for (const [name, field] of own) fields.set(name, field);
    },
    result: (): JsonObject => ({
      'Number of examples': jsonNumber(examples),
      ...Object.fromEntries(ofRows.map(([name, spread]) => [name, described(spread)])),
      ...Object.fromEntries(
        [...fields].map(([name, field]) => [
          name,
          'distinct' in field
            ? {
                unique_count: jsonNumber(field.distinct.size),
                total_count: jsonNumber(field.total),
              }
            : described(field),
        ]),
      ),
    }),
  };
}

/** In the order of `OF_ROWS`; null: it has none. */
function numbersOf(params: JsonObject): (number | null)[] {
  const { tools = null, input = null, temperature = null } = params;
  const turns = Array.isArray(input)
    ? input.filter((item) => isObject(item) && item['role'] === 'user').length
    : 1;
  // Python's escapes leave no blank but the space.
  const words = dumpJson(params).split(/ +/);
  return [
    Array.isArray(tools) ? tools.length : null,
    words.filter((word) => word !== '').length,
    turns > 0 ? turns : null,
    numberOf(temperature),
  ];
}

/** Names that begin with `_` are private to pydantic. */
const isField = (name: string): boolean =>
  name !== 'responses_create_params' && name !== 'response' && !name.startsWith('_');

/** Numbers, booleans and texts of other fields, alone or in a list. What a field has first decides what it counts. */
function observeFields(row: JsonObject, fields: Map<string, Spread | Texts>): void {
  for (const [name, value] of entriesOf(row)) {
    if (!isField(name)) continue;
    for (const item of Array.isArray(value) ? value : [value]) {
      const number = numberIn(item);
      if (number === null && typeof item !== 'string') continue;
      const known = fields.get(name);
      const field =
        known ?? (number === null ? { distinct: new Set<string>(), total: 0 } : emptySpread());
      if (known === undefined) fields.set(name, field);
      if ('distinct' in field && typeof item === 'string') {
        field.distinct.add(item);
        field.total += 1;
      } else if (!('distinct' in field) && number !== null) observe(field, number);
    }
  }
}

const numberIn = (value: Json): number | null =>
  typeof value === 'boolean' ? Number(value) : numberOf(value);

function described({ total, mean, squares, min, max }: Spread): JsonObject {
  const stddev = total > 1 ? Math.sqrt(squares / (total - 1)) : 0;
  return {
    'Total # non-null values': jsonNumber(total),
    Average: rounded(mean),
    Min: rounded(total > 0 ? min : 0),
    Max: rounded(total > 0 ? max : 0),
    'Standard deviation': rounded(stddev),
  };
}

/** As Python rounds and writes it: two digits, three below 1. */
const rounded = (value: number): KeptJson =>
  new KeptJson(floatText(Number(formatFixed(value, Math.abs(value) >= 1 ? 2 : 3))));
