import type { z } from 'zod';
import type { Json, JsonObject } from '../json/exact.js';
import { problemsOf } from '../../src/model/problems.js';
import type { GymConfig } from './global-config.js';
import {
  didYouMean,
  EFFECTIVE_KEYS,
  hasNoEffect,
  isServer,
  isTypingMistake,
} from './known-keys.js';

interface Picking<T extends z.ZodObject> {
  schema: T;
  /** Fields of the sibling commands: accepted, but without effect. */
  siblings: string[];
  /** Keys without effect here are handed on to NeMo Gym. */
  hands_on: boolean;
}

/**
 * A command's own fields from the global configuration. An unknown key close to a field is an error that names both;
 * any other probably belongs to a newer release, and is reported. A key of a configuration file counts as a variable,
 * unless it is a field with one wrong letter. `notes`: messages about keys that are accepted without effect.
 */
export function pickFields<T extends z.ZodObject>(
  gym: GymConfig,
  { schema, siblings, hands_on }: Picking<T>,
): { fields: z.output<T>; notes: string[] } {
  const fields = Object.keys(schema.shape);
  const own: JsonObject = {};
  const idle: string[] = [];
  const unknown: string[] = [];
  const newer: string[] = [];
  for (const [key, value] of Object.entries(withoutAliases(gym.config))) {
    if (fields.includes(key)) own[key] = value;
    else if (isServer(value) || EFFECTIVE_KEYS.has(key)) continue;
    else if (hasNoEffect(key) || siblings.includes(key)) idle.push(key);
    else if (!isVariable(key, { gym, fields })) {
      const near = didYouMean(key, fields);
      if (near === '') newer.push(key);
      else unknown.push(`${key}: unknown field${near}`);
    }
  }
  if (unknown.length > 0) throw new Error(`invalid configuration: ${unknown.join('; ')}`);
  refuseUnresolved(gym, Object.keys(own));
  const notes = idle.length === 0 || hands_on ? [] : [`without effect here: ${idle.join(', ')}`];
  if (newer.length > 0)
    notes.push(
      `WARNING: not known here, and ignored: ${newer.join(', ')} (a newer NeMo Gym may have it)`,
    );
  if ('upload_rollouts_to_wandb' in gym.config) {
    notes.push('upload_rollouts_to_wandb is deprecated; use upload_rollouts');
  }
  const parsed = schema.safeParse(own);
  if (!parsed.success) throw invalid(parsed.error, own);
  const isAsked = 'upload_rollouts' in own && parsed.data['upload_rollouts'] === true;
  if (isAsked && !('mlflow_run_name' in gym.config) && !('wandb_name' in gym.config)) {
    notes.push(
      'upload_rollouts: nothing is uploaded without mlflow_tracking_uri, mlflow_experiment_name and mlflow_run_name, or wandb_project, wandb_name and wandb_api_key',
    );
  }
  return { fields: parsed.data, notes };
}

/** An explicit `upload_rollouts` takes precedence over its old name. */
function withoutAliases({ upload_rollouts_to_wandb, ...config }: JsonObject): JsonObject {
  if (upload_rollouts_to_wandb === undefined || config['upload_rollouts'] !== undefined)
    return config;
  return { ...config, upload_rollouts: upload_rollouts_to_wandb };
}

function isVariable(key: string, { gym, fields }: { gym: GymConfig; fields: string[] }): boolean {
  return gym.referenced.has(key) || (gym.written.has(key) && !isTypingMistake(key, fields));
}

function refuseUnresolved(gym: GymConfig, keys: string[]): void {
  const needed = gym.unresolved.filter(({ where }) => keys.includes(where.split('.')[0] ?? ''));
  if (needed.length > 0) throw new Error(needed.map(({ what }) => what).join('\n'));
}

/** In upstream's words: what is missing and how to give it, then what is wrong. */
function invalid(error: z.ZodError, given: Record<string, Json>): Error {
  const problems = problemsOf(error, given);
  const isMissing = ({ where }: { where: string }): boolean =>
    !where.includes('.') && given[where] === undefined;
  const missing = problems.filter(isMissing).map(({ where }) => where);
  const wrong = problems
    .filter((problem) => !isMissing(problem))
    .map(({ where, what }) => `${where} (${what})`);
  const parts: string[] = [];
  if (missing.length > 0) {
    parts.push(
      `missing required configuration: ${missing.join(', ')}. ` +
        `Provide each via its flag (see --help) or as a +${missing[0] ?? ''}=<value> override.`,
    );
  }
  if (wrong.length > 0) parts.push(`invalid configuration: ${wrong.join('; ')}.`);
  return new Error(parts.join(' '));
}
