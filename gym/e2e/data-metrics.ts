import { KeptJson } from '../../src/platform/json/kept.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isNumber, isObject } from '../json/exact.js';
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

/** Fields of every row, by upstream's names. */
const OF_ROWS = {
  tools: 'Number of tools',
  words: 'Json-dumped number of words (proxy for token count)',
  turns: 'Number of turns',
  temperature: 'Temperature',
} as const;

export interface DataMetrics {
  /** Begins another data set: its own fields replace those of the ones before. */
  begin: () => void;
  /** A row, as often as it is repeated; one that is no request of the Responses API is not counted, as upstream's. */
  add: (row: JsonObject, repeats: number) => void;
  result: () => JsonObject;
}

export function createDataMetrics(): DataMetrics {
  let examples = 0;
  const ofRows = {
    tools: emptySpread(),
    words: emptySpread(),
    turns: emptySpread(),
    temperature: emptySpread(),
  };
  const fields = new Map<string, Spread | Texts>();
  let own = new Map<string, Spread | Texts>();
  return {
    begin: () => {
      own = new Map();
    },
    add: (row, repeats) => {
      const params = row['responses_create_params'];
      if (!isCreateParams(params)) return;
      for (let repeat = 0; repeat < repeats; repeat++) {
        examples += 1;
        for (const [name, value] of requestNumbers(params)) observe(ofRows[name], value);
        observeFields(row, own);
      }
      for (const [name, field] of own) fields.set(name, field);
    },
    result: () => ({
      'Number of examples': whole(examples),
      ...Object.fromEntries(
        Object.entries(ofRows).map(([name, spread]) => [
          OF_ROWS[name as keyof typeof OF_ROWS],
          described(spread),
        ]),
      ),
      ...Object.fromEntries(
        [...fields].map(([name, field]) => [
          name,
          'distinct' in field
            ? { unique_count: whole(field.distinct.size), total_count: whole(field.total) }
            : described(field),
        ]),
      ),
    }),
  };
}

function* requestNumbers(params: JsonObject): Generator<[keyof typeof OF_ROWS, number]> {
  const { tools = null, input = null, temperature = null } = params;
  if (Array.isArray(tools)) yield ['tools', tools.length];
  const turns = Array.isArray(input)
    ? input.filter((item) => isObject(item) && item['role'] === 'user').length
    : 1;
  if (turns > 0) yield ['turns', turns];
  if (isNumber(temperature)) yield ['temperature', Number(temperature.text)];
  // Python's escapes leave no blank but the space.
  yield [
    'words',
    dumpJson(params)
      .split(/ +/)
      .filter((word) => word !== '').length,
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

function numberIn(value: Json): number | null {
  if (typeof value === 'boolean') return Number(value);
  return isNumber(value) ? Number(value.text) : null;
}

function described({ total, mean, squares, min, max }: Spread): JsonObject {
  const stddev = total > 1 ? Math.sqrt(squares / (total - 1)) : 0;
  return {
    'Total # non-null values': whole(total),
    Average: rounded(mean),
    Min: rounded(total > 0 ? min : 0),
    Max: rounded(total > 0 ? max : 0),
    'Standard deviation': rounded(stddev),
  };
}

const whole = (count: number): KeptJson => new KeptJson(String(count));

/** As Python rounds and writes it: two digits, three below 1. */
const rounded = (value: number): KeptJson =>
  new KeptJson(floatText(Number(formatFixed(value, Math.abs(value) >= 1 ? 2 : 3))));
