import type { z } from 'zod';
import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { lineOf, problemsOf } from '../../model/problems.js';
import type { Dependencies, PolicyService } from '../dependencies.js';

export function policyOf(
  service: string,
  { policy, known }: Pick<Dependencies, 'policy' | 'known'>,
): PolicyService {
  const found = policy(service);
  if (found !== undefined) return found;
  const got = JSON.stringify(service);
  throw refused(`service: expected one of ${known.services.join(', ')}, got ${got}`);
}

/** How a replica's weights are changed; undefined: this process knows of no such replica. */
export const knownControl = ({ controls }: PolicyService, url: string): WeightControl | undefined =>
  controls.find(({ replica }) => replica === url);

/** The input of an update of this name, or its problems. */
export function inputOf<T>(
  name: string,
  { schema, input }: { schema: z.ZodType<T>; input: unknown },
): T {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, input).slice(0, MOST_PROBLEMS).map(lineOf);
  throw refused(`${name}: ${problems.join('; ')}`);
}
const MOST_PROBLEMS = 10;

export const refused = (message: string): Fault =>
  new Fault({ type: 'PolicyUpdateFailed', message });
