import type { z } from 'zod';
import { Fault } from '../model/faults.js';
import { problemsOf, type Problem } from '../model/problems.js';

const MAX_PROBLEMS = 5;

/** Problems of data that crossed the boundary to an environment, in either direction. */
export interface BadData {
  /** The source of the data, which begins the message. */
  subject: string;
  at?: string;
}

/** The fault for fields that zod refused: each by its path, with what was expected and what came. */
export function rejectedFields({
  error,
  input,
  ...where
}: BadData & { error: z.ZodError; input: unknown }): Fault {
  return rejected({ ...where, problems: problemsOf(error, input) });
}

/** A sample's `extra_env_info`, as an environment of this project needs it; `name`: the environment's in messages. */
export function parsedInfo<T extends z.ZodType>(
  schema: T,
  { name, info }: { name: string; info: unknown },
): z.output<T> {
  const { data, error } = schema.safeParse(info);
  if (error === undefined) return data;
  throw rejectedFields({ subject: `${name}: extra_env_info of the sample`, error, input: info });
}

export function rejected({ subject, problems, ...at }: BadData & { problems: Problem[] }): Fault {
  const shown = problems.slice(0, MAX_PROBLEMS).map(({ where, what }) => `${where}: ${what}`);
  if (problems.length > MAX_PROBLEMS) shown.push(`… and ${problems.length - MAX_PROBLEMS} more`);
  return new Fault({
    type: 'EnvironmentRejected',
    message: `${subject}: ${shown.join('; ')}`,
    ...at,
  });
}
