import type { Json, JsonObject } from '../json/exact.js';
import { isObject, mapItems } from '../json/exact.js';
import { MISSING } from './inherit.js';
import { parseOverrideValue } from './override-value.js';
import { entriesOf } from '../../src/platform/json/order.js';
import { closingBrace } from '../python/format-map.js';
import { reprOf, strOf } from '../python/repr.js';
import { parseYaml } from './yaml-text.js';

/** An interpolation that cannot be resolved; its text stays. */
export interface Unresolved {
  /** Its place, such as `policy_model.responses_api_models.vllm_model.base_url`. */
  where: string;
  what: string;
}

export interface Resolved {
  config: JsonObject;
  unresolved: Unresolved[];
}

type Env = Partial<Record<string, string>>;

/**
 * References and copied values of a whole configuration. Two references to one text that has two to another, and so on,
 * double with each level; real configurations have hundreds.
 */
const MOST_STEPS = 2 ** 19;
/** The characters of one text. */
const MOST_CHARACTERS = 2 ** 22;

interface Scope {
  root: JsonObject;
  /** Shared by all texts of a configuration. */
  steps: { left: number };
  env: Env;
  /** Keys being resolved: a repeated one is a cycle. */
  open: string[];
  /** The keys that lead to the mapping or list that contains the text. */
  parents: string[];
  /** Referenced values come as written, including the texts in them. */
  isShallow?: boolean;
}

/**
 * OmegaConf's interpolations: `${a.b}` and `${a.0}` from the root, `${.b}` and `${..b}` from its own place,
 * `${oc.env:NAME,default}` and its other resolvers, one inside another, `\${` for the text itself. A text that is one
 * interpolation has the value's type, others its text.
 */
export function resolveInterpolations(config: JsonObject, env: Env): Resolved {
  const { unresolved, resolve } = createAttempts({ root: config, env });
  const resolveIn = (value: Json, path: string[]): Json =>
    typeof value === 'string'
      ? resolve(value, path)
      : mapItems(value, (item, key) => resolveIn(item, [...path, key]));
  return { config: resolveIn(config, []) as JsonObject, unresolved };
}

/**
 * A mapping that upstream takes out of the configuration: its own values are resolved from the configuration's root, and
 * what is in them stays as written. Texts in its lists must have a value there, too, which upstream only looks at.
 */
export function resolveTakenOut(
  key: string,
  { config, env }: { config: JsonObject; env: Env },
): Resolved {
  const { unresolved, resolve } = createAttempts({ root: config, env, isShallow: true });
  const taken = (value: Json, path: string[]): Json =>
    typeof value === 'string' ? resolve(value, path) : value;
  const lookInLists = (value: Json, path: string[]): Json =>
    mapItems(value, (item, name) => {
      const place = [...path, name];
      return Array.isArray(value) && !isObject(item)
        ? taken(item, place)
        : lookInLists(item, place);
    });
  const given = config[key] ?? null;
  const mapping = taken(given, [key]);
  lookInLists(given, [key]);
  const own = isObject(mapping)
    ? mapItems(mapping, (value, name) => taken(value, [key, name]))
    : mapping;
  return { config: { [key]: own }, unresolved };
}

/** Resolves texts by their places; one that cannot be resolved stays, and is recorded. */
function createAttempts(of: Pick<Scope, 'root' | 'env' | 'isShallow'>) {
  const unresolved: Unresolved[] = [];
  const steps = { left: MOST_STEPS };
  const resolve = (text: string, path: string[]): Json => {
    const where = path.join('.');
    try {
      return resolveText(text, { ...of, steps, open: [where], parents: path.slice(0, -1) });
    } catch (error) {
      unresolved.push({ where, what: (error as Error).message });
      return text;
    }
  };
  return { unresolved, resolve };
}

/** The first parts of the references in a configuration's interpolations: its variables. */
export function referencedKeys(config: Json): Set<string> {
  const keys = new Set<string>();
  const texts = JSON.stringify(config);
  for (const [, key = ''] of texts.matchAll(/\$\{([^${}.:,[\]]+)/g)) keys.add(key.trim());
  return keys;
}

function resolveText(text: string, scope: Scope): Json {
  const parts: Json[] = [];
  let plain = '';
  let at = 0;
  while (at < text.length) {
    if (text.startsWith('\\${', at)) {
      plain += '${';
      at += 3;
    } else if (text.startsWith('${', at)) {
      const end = closingBrace(text, at + 2);
      if (end === null) throw new Error(`'${text}' lacks the } of an interpolation`);
      if (plain !== '') parts.push(plain);
      plain = '';
      parts.push(resolveOne(text.slice(at + 2, end), scope));
      at = end + 1;
    } else {
      plain += text.charAt(at);
      at += 1;
    }
  }
  if (parts.length === 1 && plain === '') return parts[0] ?? null;
  const whole = parts.map(strOf).join('') + plain;
  if (whole.length <= MOST_CHARACTERS) return whole;
  throw new Error(`expected a text of at most ${MOST_CHARACTERS} characters, got ${whole.length}`);
}

function take({ steps }: Scope): void {
  steps.left -= 1;
  if (steps.left >= 0) return;
  const most = `at most ${MOST_STEPS} references and referenced values in a configuration`;
  throw new Error(
    `expected ${most}, got more: texts that refer to one another double at each level`,
  );
}

function resolveOne(inner: string, scope: Scope): Json {
  take(scope);
  const [, name, rest = ''] = /^\s*([\w.]+)\s*:(.*)$/s.exec(inner) ?? [];
  if (name !== undefined) {
    const resolver = Object.hasOwn(RESOLVERS, name) ? RESOLVERS[name] : undefined;
    if (resolver !== undefined) return resolver(rest, scope);
    const known = Object.keys(RESOLVERS).map((one) => `\${${one}:…}`);
    throw new Error(
      `\${${name}:…} is not supported: supported are \${key}, ${known.join(', ')}, and inherit_from and copy as whole values`,
    );
  }
  const key = strOf(resolveText(inner, scope)).trim();
  const value = referenced(key, scope);
  if (value === undefined) throw notSet(key, scope);
  return value;
}

/** undefined: nothing is there, or it is not given yet. */
function referenced(key: string, scope: Scope): Json | undefined {
  const path = absolutePath(key, scope);
  const name = path.join('.');
  if (scope.open.includes(name)) {
    throw new Error(`'${name}' refers to itself: ${[...scope.open, name].join(' → ')}`);
  }
  const value = valueAt(path, { ...scope, open: [...scope.open, name] });
  return value === MISSING ? undefined : value;
}

/** Upstream's words. */
function notSet(key: string, { open }: Scope): Error {
  return new Error(
    `Config value '${open[0] ?? ''}' references '${key}', which is not set after merging.\n\n` +
      'Provide it via a CLI override, in env.yaml, or in a config you pass via config_paths.\n' +
      `For example, on the command line:\n  ++${key}=<value>`,
  );
}

function absolutePath(key: string, { parents }: Scope): string[] {
  const [, dots = '', rest = ''] = /^(\.*)(.*)$/s.exec(key) ?? [];
  const parts = rest
    .replace(/\[([^\]]*)\]/g, '.$1')
    .split('.')
    .filter((part) => part !== '');
  if (dots === '') return parts;
  return [...parents.slice(0, parents.length - (dots.length - 1)), ...parts];
}

/** Values on the path that are interpolations themselves are followed. */
function valueAt(path: string[], scope: Scope): Json | undefined {
  let value: Json | undefined = scope.root;
  for (const [index, key] of path.entries()) {
    if (Array.isArray(value)) value = value[Number(key)];
    else if (isObject(value)) value = Object.hasOwn(value, key) ? value[key] : undefined;
    else return undefined;
    if (typeof value === 'string') {
      value = resolveText(value, { ...scope, parents: path.slice(0, index) });
    }
  }
  if (value === undefined || scope.isShallow === true) return value;
  return resolveWithin(value, { ...scope, parents: path });
}

/** A referenced mapping comes with its own interpolations resolved. */
const resolveWithin = (value: Json, scope: Scope): Json =>
  mapItems(value, (item, key) => {
    take(scope);
    return typeof item === 'string'
      ? resolveText(item, scope)
      : resolveWithin(item, { ...scope, parents: [...scope.parents, key] });
  });

/** Its value is text, and so is its default, as Python writes it (`false` becomes `False`); only a default of `null` is null. */
function environment(args: string, scope: Scope): Json {
  const [key, fallback] = splitArguments(args);
  const name = strOf(argument(key, scope));
  const value = scope.env[name];
  if (value !== undefined) return value;
  if (fallback === undefined) throw new Error(`Environment variable '${name}' not found`);
  const given = argument(fallback, scope);
  return given === null ? null : strOf(given);
}

/** The value under a key, else the default, else null. */
function select(args: string, scope: Scope): Json {
  const [key, fallback] = splitArguments(args);
  const value = referenced(strOf(argument(key, scope)), scope);
  if (value !== undefined) return value;
  return fallback === undefined ? null : argument(fallback, scope);
}

/** Text as a value; an interpolation in it is resolved. */
function decode(args: string, scope: Scope): Json {
  const text = argument(args, scope);
  if (text === null) return null;
  if (typeof text !== 'string' || text.trim() === '')
    throw new Error(`oc.decode: expected a value as text, got ${reprOf(text)}`);
  const value = parseOverrideValue(text);
  return resolveWithin(typeof value === 'string' ? resolveText(value, scope) : value, scope);
}

/** A list or mapping, or the YAML text of one. */
function create(args: string, scope: Scope): Json {
  const given = argument(args, scope);
  const value = typeof given === 'string' ? parseYaml(given, 'oc.create') : given;
  if (value === null) return null;
  if (!isObject(value) && !Array.isArray(value))
    throw new Error(`oc.create: expected a list or a mapping, got ${reprOf(given)}`);
  return resolveWithin(value, scope);
}

/** The mapping under a key. */
function mapping(args: string, { name, scope }: { name: string; scope: Scope }): JsonObject {
  const key = strOf(argument(args, scope));
  const value = referenced(key, scope);
  if (value === undefined) throw notSet(key, scope);
  if (isObject(value)) return value;
  throw new Error(`${name}: expected a mapping under '${key}', got ${reprOf(value)}`);
}

/** OmegaConf's own. */
const RESOLVERS: Record<string, (args: string, scope: Scope) => Json> = {
  'oc.env': environment,
  'oc.select': select,
  'oc.decode': decode,
  'oc.create': create,
  'oc.deprecated': (args, scope) => resolveOne(splitArguments(args)[0], scope),
  'oc.dict.keys': (args, scope) => namesIn(mapping(args, { name: 'oc.dict.keys', scope })),
  'oc.dict.values': (args, scope) =>
    entriesOf<Json>(mapping(args, { name: 'oc.dict.values', scope })).map(([, value]) => value),
};

const namesIn = (value: JsonObject): Json[] => entriesOf<Json>(value).map(([name]) => name);

function splitArguments(args: string): [first: string, second: string | undefined] {
  const comma = args.indexOf(',');
  return comma < 0 ? [args, undefined] : [args.slice(0, comma), args.slice(comma + 1)];
}

/** Numbers, booleans, null and quoted text are read as such; anything else is text. */
function argument(text: string, scope: Scope): Json {
  const trimmed = text.trim();
  if (/^(['"]).*\1$/s.test(trimmed) && trimmed.includes('${'))
    return strOf(resolveText(trimmed.slice(1, -1), scope));
  if (trimmed.includes('${')) return resolveText(trimmed, scope);
  try {
    return parseOverrideValue(trimmed);
  } catch {
    return trimmed;
  }
}
