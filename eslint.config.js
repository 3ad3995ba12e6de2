// What eslint looks for in the page's JavaScript. Types are tsc's business (tsconfig.json), and so are names that do not exist.

import js from "@eslint/js";
import typescript from "typescript-eslint";

export default [
  {
    files: ["src/inturn/http/static/**/*.js", "tests/support/*.js"],
    languageOptions: { parser: typescript.parser, parserOptions: { project: "tsconfig.json" } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    plugins: { typescript: typescript.plugin },
    rules: {
      ...js.configs.recommended.rules,
      "no-undef": "off", // tsc knows more
      "array-callback-return": "error",
      "default-case-last": "error",
      eqeqeq: "error",
      "no-await-in-loop": "off",
      "no-constructor-return": "error",
      "no-duplicate-imports": "off",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-implicit-coercion": "error",
      "no-param-reassign": "off",
      "no-promise-executor-return": "off",
      "no-return-assign": "error",
      "no-self-compare": "error",
      "no-shadow": "error",
      "no-template-curly-in-string": "error",
      "no-unmodified-loop-condition": "error",
      "no-unreachable-loop": "error",
      "no-unused-expressions": "error",
      "no-unused-private-class-members": "error",
      "no-unused-vars": ["error", { args: "all", argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "all", reportUsedIgnorePattern: true }],
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-promise-reject-errors": "error",
      "typescript/await-thenable": "error",
      "typescript/no-floating-promises": "error",
      "typescript/no-misused-promises": "error",
      "typescript/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
    },
  },
  { files: ["tests/support/page_checks.js"], rules: { "no-unused-expressions": "off" } }, // one expression, for page.evaluate
];
