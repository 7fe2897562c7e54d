import { isLosslessNumber } from 'lossless-json';
import type { z } from 'zod';
import type { Flags } from '../config/flags.js';

/** A line for each field of a configuration: its override, its flags, its default and what it means. */
export function fieldsUsage(schema: z.ZodObject<Record<string, z.ZodType>>, flags: Flags): string {
  const fields = Object.entries(schema.shape);
  const names = fields.map(([field]) => [`+${field}`, ...flagsOf(field, flags)].join(', '));
  const width = Math.max(...names.map(({ length }) => length));
  return fields
    .map(([field, own], index) => {
      const name = (names[index] ?? field).padEnd(width);
      return `${name}  ${own.description ?? ''} (${defaultOf(own)})`;
    })
    .join('\n');
}

const flagsOf = (field: string, flags: Flags): string[] =>
  Object.keys(flags).filter((name) => {
    const flag = flags[name];
    return flag !== undefined && 'field' in flag && flag.field === field;
  });

function defaultOf(schema: z.ZodType): string {
  const parsed = schema.safeParse(undefined);
  if (!parsed.success) return 'required';
  const { data } = parsed;
  return `default ${isLosslessNumber(data) ? data.value : JSON.stringify(data)}`;
}
