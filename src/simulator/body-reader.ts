import {
  badRequest,
  errorBody,
  headerOf,
  readText,
  Refusal,
  type Exchange,
} from './http-exchange.js';

/** A field that is wrong, in pydantic's words. */
export interface FieldProblem {
  type: string;
  /** Without its place. */
  loc: string;
  msg: string;
  input: unknown;
  ctx?: Readonly<Record<string, unknown>>;
}

export type Body = Readonly<Record<string, unknown>>;

/** 400 as FastAPI's validation answers it: every problem on a line, a Python dict each (captures 044, 050, 051). */
export function validationRefusal(
  problems: readonly FieldProblem[],
  place: 'body' | 'query' = 'body',
): Refusal {
  const lines = problems.map(({ type, loc, msg, input, ctx }) =>
    pythonText({
      type,
      loc: `${place}.${loc}`,
      msg,
      input: inputText(input),
      ...(ctx === undefined ? {} : { ctx }),
    }),
  );
  const title =
    problems.length === 1 ? '1 validation error' : `${problems.length} validation errors`;
  const message = [`${title}:`, ...lines].join('\n  ');
  const param = `${place}.${problems[0]?.loc ?? ''}`;
  return new Refusal({
    status: 400,
    body: errorBody({ message, type: 'Bad Request', param, code: 400 }),
  });
}

function inputText(input: unknown): string {
  if (Array.isArray(input)) return `<list of ${input.length} items>`;
  if (input === null || input === undefined) return 'None';
  if (typeof input === 'object') return `<dict of ${Object.keys(input).length} items>`;
  return typeof input === 'string' ? input : pythonText(input);
}

/** As Python's `repr` of what JSON can hold. */
function pythonText(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number')
    return Number.isInteger(value) ? String(BigInt(value)) : String(value);
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${value.map(pythonText).join(', ')}]`;
  const fields = Object.entries(value).map(([key, item]) => `${quoted(key)}: ${pythonText(item)}`);
  return `{${fields.join(', ')}}`;
}

function quoted(text: string): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  if (!text.includes("'")) return `'${escaped}'`;
  return text.includes('"') ? `'${escaped.replaceAll("'", "\\'")}'` : `"${escaped}"`;
}

/** A float as Python writes it in a message. */
export function pythonFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** The JSON object of a POST. Anything else is refused as vLLM does (captures 050, 065). */
export async function readBody(exchange: Exchange): Promise<Body> {
  const type = headerOf(exchange.request, 'content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    const message =
      "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
    const body = errorBody({ message, type: 'Bad Request', param: null, code: 400 });
    throw new Refusal({ status: 400, body });
  }
  const text = await readText(exchange);
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badRequest('Input should be a valid dictionary or object to extract fields from', 'body');
  }
  return value as Body;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    const at = Number(/position (\d+)/.exec(String(error))?.[1] ?? text.length);
    const problem = {
      type: 'json_invalid',
      loc: String(at),
      msg: 'JSON decode error',
      input: {},
      ctx: { error: pythonJsonError(text.slice(0, at)) },
    };
    throw validationRefusal([problem]);
  }
}

/** Python's json names what it waited for; what stands before the error tells. */
function pythonJsonError(before: string): string {
  const last = before.trimEnd().at(-1);
  if (last === '{') return 'Expecting property name enclosed in double quotes';
  return last === undefined || ':[,'.includes(last) ? 'Expecting value' : "Expecting ',' delimiter";
}

export interface FieldOptions {
  /** null is as good as leaving it out. */
  nullable: boolean;
}

/** Reads fields with pydantic's rules and gathers what is wrong with them; `check` throws it all. */
export interface BodyReader {
  int(name: string, options?: FieldOptions): number | null;
  float(name: string): number | null;
  bool(name: string, options?: FieldOptions): boolean | null;
  text(name: string): string | null;
  /** A list of integers. */
  ints(name: string): number[] | null;
  add(problem: FieldProblem): void;
  check(): void;
}

const NULLABLE: FieldOptions = { nullable: true };

export function createBodyReader(body: Body): BodyReader {
  const problems: FieldProblem[] = [];
  const parseAt = <Value>(loc: string, parse: Parser<Value>) => {
    return (input: unknown): Value | null => {
      const parsed = parse(input);
      if ('value' in parsed) return parsed.value;
      problems.push({ ...parsed, loc, input });
      return null;
    };
  };
  const field =
    <Value>(parse: Parser<Value>) =>
    (name: string, { nullable }: FieldOptions = NULLABLE): Value | null => {
      const value = body[name];
      return value === undefined || (value === null && nullable)
        ? null
        : parseAt(name, parse)(value);
    };
  const list = field(parseList);
  return {
    int: field(parseInteger),
    float: field(parseFloatField),
    bool: field(parseBool),
    text: field(parseText),
    ints: (name) =>
      list(name)?.map((item, i) => parseAt(`${name}.${i}`, parseInteger)(item) ?? 0) ?? null,
    add: (problem) => problems.push(problem),
    check() {
      if (problems.length > 0) throw validationRefusal(problems);
    },
  };
}

type Problem = Pick<FieldProblem, 'type' | 'msg'>;
type Parser<Value> = (value: unknown) => { value: Value } | Problem;

export const LIST_TYPE: Problem = { type: 'list_type', msg: 'Input should be a valid list' };
export const STRING_TYPE: Problem = { type: 'string_type', msg: 'Input should be a valid string' };

/** Whole numbers, also as text, as pydantic takes them. */
export function parseInteger(value: unknown): { value: number } | Problem {
  if (typeof value === 'number') {
    if (Number.isInteger(value)) return { value };
    const msg = 'Input should be a valid integer, got a number with a fractional part';
    return { type: 'int_from_float', msg };
  }
  if (typeof value !== 'string')
    return { type: 'int_type', msg: 'Input should be a valid integer' };
  if (/^\s*[+-]?\d+\s*$/.test(value)) return { value: Number(value) };
  const msg = 'Input should be a valid integer, unable to parse string as an integer';
  return { type: 'int_parsing', msg };
}

function parseFloatField(value: unknown): { value: number } | Problem {
  if (typeof value === 'number') return { value };
  if (typeof value !== 'string')
    return { type: 'float_type', msg: 'Input should be a valid number' };
  if (value.trim() !== '' && !Number.isNaN(Number(value))) return { value: Number(value) };
  const msg = 'Input should be a valid number, unable to parse string as a number';
  return { type: 'float_parsing', msg };
}

function parseBool(value: unknown): { value: boolean } | Problem {
  if (typeof value === 'boolean') return { value };
  if (value === 0 || value === 1) return { value: value === 1 };
  if (typeof value !== 'string')
    return { type: 'bool_type', msg: 'Input should be a valid boolean' };
  const msg = 'Input should be a valid boolean, unable to interpret input';
  return { type: 'bool_parsing', msg };
}

function parseText(value: unknown): { value: string } | Problem {
  return typeof value === 'string' ? { value } : STRING_TYPE;
}

function parseList(value: unknown): { value: unknown[] } | Problem {
  return Array.isArray(value) ? { value } : LIST_TYPE;
}
