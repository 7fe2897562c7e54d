import type { z } from 'zod';
import { parse } from 'yaml';
import { EnvironmentSettings } from '../../../src/environments/registry.js';
import { BatchRequest, SingleRollout } from '../../../src/model/batch-request.js';
import { Publish } from '../../../src/model/policy/orders.js';
import { Sample } from '../../../src/model/sample.js';
import { StreamRequest } from '../../../src/model/stream/stream-request.js';
import { Config } from '../../../src/workers/config.js';
import type { Page, Piece, Problem } from './page.js';

/** Whether inputs that pages show parse: parts of temporal.yaml, requests, samples, updates. */

type Found = Piece & { schema: z.ZodType; value: unknown };

export const inputProblems = (page: Page): Problem[] =>
  inputsIn(page).flatMap(({ line, schema, value }) => {
    const issues = schema.safeParse(value).error?.issues ?? [];
    return issues.map(({ path, message }) => ({
      page: page.file,
      line,
      what: `${path.join('.')}: ${message}`,
    }));
  });

/** What schemas read of a page. */
export const inputsIn = (page: Page): Found[] => [...settingsIn(page), ...requestsIn(page)];

/** A block of YAML is temporal.yaml, or parts of it, or lines of its environments. A list is a file of others. */
function settingsIn({ blocks }: Page): Found[] {
  return blocks.flatMap(({ line, text, language }) => {
    const read = language === 'yaml' ? (parse(text) as Record<string, unknown> | unknown[]) : [];
    if (Array.isArray(read)) return [];
    return Object.entries(read).map(([key, value]) => ({
      line,
      text: key,
      schema:
        key in Config.shape ? Config.shape[key as keyof typeof Config.shape] : EnvironmentSettings,
      value,
    }));
  });
}

const INPUTS: { begins: RegExp; schema: z.ZodType }[] = [
  { begins: /--type rolloutBatch\b.*--input '(\{.*?\})'/, schema: BatchRequest },
  { begins: /--type rolloutStream\b.*--input '(\{.*?\})'/, schema: StreamRequest },
  { begins: /--type rollout\b.*--input '(\{.*?\})'/, schema: SingleRollout },
  { begins: /--update-name publish\b.*--update-input '(\{.*?\})'/, schema: Publish },
  { begins: /^(?:request = )?(\{"samples":(?!.*"groups_per_step").*\})$/, schema: BatchRequest },
  { begins: /^request = (\{"samples":.*"groups_per_step".*\})$/, schema: StreamRequest },
  { begins: /^(\{"task_name":.*\})$/, schema: Sample },
];

/** Those without `…` in them. */
function requestsIn({ spans, code, blocks }: Page): Found[] {
  const json = blocks.filter(({ language }) => language === 'json');
  const whole = json.map(({ line, text }) => ({ line, text: JSON.stringify(JSON.parse(text)) }));
  const samples = whole.filter(({ text }) => text.startsWith('{"message_log"'));
  return [
    ...samples.map((piece) => ({
      ...piece,
      schema: Sample,
      value: JSON.parse(piece.text) as unknown,
    })),
    ...[...spans, ...code].flatMap((piece) => {
      const found = INPUTS.map(({ begins, schema }) => ({
        schema,
        text: begins.exec(piece.text)?.[1],
      }));
      return found
        .filter(({ text }) => text !== undefined && !text.includes('…'))
        .map(({ schema, text = '' }) => ({ ...piece, schema, value: JSON.parse(text) as unknown }));
    }),
  ];
}
