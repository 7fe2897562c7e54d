import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import { z } from 'zod';
import { jsonSchemaOf } from '../../../src/model/json-schema.js';
import type { Page, Problem } from './page.js';
import { codeIn, sectionOf, tableOf } from './page.js';

/** Whether a table of settings has the settings of its schema: no other, and (`all`) each of them. */

export interface SettingsTable {
  heading: string;
  /** Names that its first column may have. */
  names: readonly string[];
  /** Names that the section must have in code font; default: all of them. */
  needed?: readonly string[];
  /** Which column has the names; default: the first. */
  column?: number;
}

export function tableProblems(page: Page, table: SettingsTable): Problem[] {
  const { heading, names, needed = names, column = 0 } = table;
  const section = sectionOf(page, heading);
  const line = page.headings.find(({ text }) => text.replaceAll('`', '') === heading)?.line ?? 0;
  const wrong = tableOf(section).flatMap((row) =>
    namesIn(row.cells[column] ?? '')
      .filter((name) => !names.includes(name))
      .map((name) => ({
        page: page.file,
        line: row.line,
        what: `\`${name}\` is no field of this table's schema`,
      })),
  );
  const said = new Set(
    section.flatMap(({ text }) =>
      codeIn(text).flatMap((span) => [span, ...span.split(/[^\w]+/), ...span.split(/[^\w-]+/)]),
    ),
  );
  const missing = needed
    .filter((name) => !said.has(name))
    .map((name) => ({ page: page.file, line, what: `${heading} does not name \`${name}\`` }));
  return [...wrong, ...missing];
}

/** The text in code font before a bracket: cells may explain themselves. */
const namesIn = (cell: string): string[] =>
  codeIn(cell.replace(/\(.*$/, '')).map((name) => name.replace(/^– /, ''));

/** Whether a table's column of defaults has those of the schema: as JSON, or `required`. */
export function defaultProblems(
  page: Page,
  { heading, schema, column = 1 }: { heading: string; schema: z.ZodType; column?: number },
): Problem[] {
  return tableOf(sectionOf(page, heading)).flatMap(({ line, cells }) => {
    const problems = wrongDefaults(namesIn(cells[column - 1] ?? ''), {
      cell: cells[column] ?? '',
      schema,
    });
    return problems.map((what) => ({ page: page.file, line, what }));
  });
}

/** Several names have as many values, with commas between them. */
function wrongDefaults(
  names: readonly string[],
  { cell, schema }: { cell: string; schema: z.ZodType },
): string[] {
  const { properties = {}, required = [] } = jsonSchemaOf(schema) as Defaults;
  const values = names.length === 1 ? [cell] : cell.split(', ');
  return names.flatMap((name, i) => {
    const said = (values[i] ?? '').replaceAll('`', '');
    const { default: fallback } = properties[name] ?? {};
    if (required.includes(name))
      return said === 'required' || said === ''
        ? []
        : [`${name}: expected "required", got ${said}`];
    if (fallback === undefined) return [];
    // An object may be written with its own defaults.
    const whole =
      schema instanceof z.ZodObject
        ? (schema.shape[name] as z.ZodType).safeParse(undefined).data
        : fallback;
    const value: unknown = parse(said);
    if (isDeepStrictEqual(value, fallback) || isDeepStrictEqual(value, whole)) return [];
    return [`${name}: expected the default ${JSON.stringify(fallback)}, got ${said}`];
  });
}

interface Defaults {
  properties?: Record<string, { default?: unknown }>;
  required?: string[];
}

/** The fields of an object, or of all objects of a union. */
export function keysOf(schema: z.ZodType): string[] {
  const keys = new Set<string>();
  const add = ({ properties = {}, ...parts }: Shape): void => {
    Object.keys(properties).forEach((key) => keys.add(key));
    [parts.anyOf, parts.oneOf, parts.allOf].flatMap((part) => part ?? []).forEach(add);
  };
  add(jsonSchemaOf(schema));
  return [...keys];
}

/** The fields of all objects in it, at any depth. */
export function allKeysOf(schema: z.ZodType): string[] {
  const keys = new Set<string>();
  JSON.stringify(jsonSchemaOf(schema), (key: string, value: unknown) => {
    if (key === 'properties') Object.keys(value as object).forEach((name) => keys.add(name));
    return value;
  });
  return [...keys];
}

interface Shape {
  properties?: object;
  anyOf?: Shape[];
  oneOf?: Shape[];
  allOf?: Shape[];
}
