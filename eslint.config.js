import tseslint from 'typescript-eslint';

const TIMEOUT = {
  selector:
    "CallExpression[callee.property.name='any'] CallExpression[callee.object.name='AbortSignal'][callee.property.name='timeout']",
  message: 'Node.js 20 collects such a timeout as garbage: withDeadline (platform/waits/abort.ts).',
};
const SHARED = [
  "VariableDeclaration[kind='let']",
  "VariableDeclaration > VariableDeclarator > NewExpression[callee.name='Map']",
].map((what) => ({
  selector: `:matches(Program, Program > ExportNamedDeclaration) > ${what}`,
  message:
    'All workflows of a process share their modules (workers/build-bundle.ts): keep it in the workflow’s function.',
}));

export default tseslint.config(
  {
    ignores: [
      'dist/',
      '.lab/',
      '.tests/',
      'node_modules/',
      '.rollouts/',
      'python/',
      '**/*.js',
      '**/*.mjs',
      '**/*.cjs',
    ],
  },
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      // A program for all files, and one for the browser's: a service opens and closes each of them, which takes a fifth longer.
      parserOptions: {
        project: ['tsconfig.json', 'viewer/page/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      'no-restricted-syntax': ['error', TIMEOUT],
      // A forgotten await in a workflow or an activity is lost work.
      '@typescript-eslint/no-floating-promises': 'error',
      // Numbers in messages are the point of messages.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 80, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', 2],
    },
  },
  {
    files: ['src/workflows/**', 'src/model/workflow-safe/**'],
    rules: { 'no-restricted-syntax': ['error', TIMEOUT, ...SHARED] },
  },
  {
    files: ['src/workflows/**'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              group: [
                'node:*',
                'zod',
                '../model/*',
                '!../model/workflow-safe',
                '!../model/workflow-safe/*',
                '../platform/*',
                '!../platform/plain.js',
                '!../platform/json',
                '../platform/json/*',
                '!../platform/json/kept.js',
                '!../platform/json/depth.js',
                '../activities/*',
                '@temporalio/activity',
                '@temporalio/client',
                '@temporalio/worker',
              ],
              message:
                'Workflow code is deterministic: it imports @temporalio/workflow, src/model/workflow-safe, plain.ts, json/kept.ts, json/depth.ts, and types.',
              allowTypeImports: true,
            },
          ],
        },
      ],
    },
  },
  {
    files: ['test/**', 'gym/test/**', 'lab/{bed,bench,chaos}/**'],
    rules: {
      // `describe`/`test` callbacks and tables of cases are long by nature; node:test promises are awaited by the runner.
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            {
              from: 'package',
              package: 'node:test',
              name: ['test', 'describe', 'it', 'suite', 'before', 'after'],
            },
          ],
        },
      ],
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
);
