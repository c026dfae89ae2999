# One image for the three processes of Durable Room: the API, a worker, and the job that migrates the database.
# It brings no PostgreSQL and no Temporal: DATABASE_URL and TEMPORAL_ADDRESS say where they are.

FROM node:20.20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
# Compiles, and bundles the workflow code: a worker bundles nothing at its start.
RUN npm run build

FROM node:20.20-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# The optional ones are the embedded PostgreSQL's binaries, which only `npm start` on one machine needs.
RUN npm ci --omit=dev --omit=optional

FROM node:20.20-bookworm-slim
# Temporal's SDK speaks TLS with the system's certificates.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production API_HOST=0.0.0.0 WORKER_HOST=0.0.0.0
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/prisma/schema.prisma prisma/schema.prisma
COPY --from=build /app/prisma/migrations prisma/migrations
COPY package.json ./
# Made by the base image; the processes write nothing to disk.
USER node
EXPOSE 8080 8081
CMD ["node", "dist/worker/main.js"]
