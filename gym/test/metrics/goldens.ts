import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { formatJson, isObject, parseJson, type Json, type JsonObject } from '../../json/exact.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';

/** Recorded runs of upstream's code, numbers as they were written; those whose names begin with one of `prefixes`. */
export function gymMetricsGoldens(...prefixes: string[]): { name: string; golden: JsonObject }[] {
  const folder = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_metrics');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json') && prefixes.some((prefix) => file.startsWith(prefix)))
    .map((file) => {
      const golden = parseJson(readFileSync(path.join(folder, file), 'utf8'));
      if (!isObject(golden)) throw new Error(`${file} is no object`);
      return { name: path.parse(file).name, golden };
    });
}

export function objectsAt(golden: JsonObject, key: string): JsonObject[] {
  const list = golden[key];
  if (!Array.isArray(list) || !list.every(isObject))
    throw new Error(`${key} is no list of objects`);
  return list;
}

export function objectAt(golden: JsonObject, key: string): JsonObject {
  const value = golden[key];
  if (!isObject(value)) throw new Error(`${key} is no object`);
  return value;
}

/** Without what only the text has. */
export const plain = (value: Json): unknown => JSON.parse(formatJson(value));
