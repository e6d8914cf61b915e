/* Predictions of a model that `model.export(path)` of the Python package sparse_pep wrote, in C99 without anything but the C library:
 *
 *   spep_model *model = spep_read(text);              the file as one string; NULL if it is none, or memory is short
 *   double mean = spep_mean(model, x);                of the latent function; x has spep_inputs(model) numbers
 *   spep_predict(model, x, &mean, &std);              values: mean and standard deviation, in the units of the target
 *   spep_interval(model, x, 0.9, &lower, &upper);     values: the ends of an interval that holds 0.9
 *   double p = spep_probability(model, x);            labels: the probability of the second label
 *   spep_free(model);
 *
 * Inputs are in the order of "names" in the file; those of a table with categories are its columns of numbers. Nothing is allocated after
 * spep_read. A model has room for one prediction at a time, so each thread reads its own. Cost of a prediction: M kernels, and M*M/2 multiplications for a variance. */
#ifndef SPARSE_PEP_H
#define SPARSE_PEP_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum spep_kind { SPEP_SE, SPEP_M12, SPEP_M32, SPEP_M52, SPEP_RQ, SPEP_PERIODIC, SPEP_CATEGORICAL, SPEP_LINEAR, SPEP_CONSTANT, SPEP_WHITE, SPEP_SUM, SPEP_PRODUCT, SPEP_KINDS };

enum spep_likelihood { SPEP_GAUSSIAN, SPEP_PROBIT, SPEP_LOGIT };

typedef struct spep_kernel {
    enum spep_kind kind;
    int n;                                             /* columns, or parts of a sum or product */
    int *dims;                                         /* (n,) */
    double variance, period, shape, correlation;
    double *by_column;                                 /* (n,) lengthscales, or variances of slopes */
    struct spep_kernel *parts;                         /* (n,) */
} spep_kernel;

typedef struct {
    int D, M;
    enum spep_likelihood likelihood;
    double *x_mean, *x_scale, *slope;                  /* (D,) */
    double *centres, *weights, *factor;                /* (M, D), (M,), and rows of an upper triangle, M(M + 1)/2 */
    double *at, *k;                                    /* (D,), (M,): room for a prediction */
    double constant, noise_variance, y_mean, y_scale;
    spep_kernel kernel;
} spep_model;

/* JSON: the place behind a value, and the value of a key or the first item of a list; NULL where there is none. */
static inline const char *spep_blank(const char *s) { while (*s == ' ' || *s == '\n' || *s == '\r' || *s == '\t') s++; return s; }
static inline const char *spep_behind(const char *s)
{
    int depth = 0, quoted = 0;
    for (; *s; s++) {
        if (quoted) {
            if (*s == '\\' && s[1]) s++;
            else if (*s == '"' && (quoted = 0, !depth)) return s + 1;
        } else if (*s == '"') quoted = 1;
        else if (*s == '[' || *s == '{') depth++;
        else if (*s == ']' || *s == '}') { if (depth == 0) return s; if (--depth == 0) return s + 1; }
        else if (*s == ',' && depth == 0) return s;
    }
    return s;
}
static inline const char *spep_next(const char *s)            /* the next item of a list */
{
    s = spep_blank(spep_behind(s));
    return *s == ',' ? spep_blank(s + 1) : NULL;
}
static inline const char *spep_first(const char *s)
{
    if (!s || (*s != '[' && *s != '{')) return NULL;
    s = spep_blank(s + 1);
    return *s && *s != ']' && *s != '}' ? s : NULL;
}
static inline const char *spep_get(const char *object, const char *key)
{
    size_t size = strlen(key);
    const char *s = object && *object == '{' ? spep_first(object) : NULL;
    while (s && *s == '"') {
        const char *value = spep_blank(spep_behind(s));
        if (*value != ':') return NULL;
        value = spep_blank(value + 1);
        if (!strncmp(s + 1, key, size) && s[size + 1] == '"') return value;
        s = spep_next(value);
    }
    return NULL;
}
static inline int spep_is(const char *s, const char *word)
{
    return s && *s == '"' && !strncmp(s + 1, word, strlen(word)) && s[strlen(word) + 1] == '"';
}
static inline int spep_count(const char *list)
{
    int n = 0;
    for (const char *s = spep_first(list); s; s = spep_next(s)) n++;
    return n;
}
static inline double spep_number(const char *s)        /* not by strtod, whose decimal point depends on the locale */
{
    double digits = 0.0, sign = s && *s == '-' ? -1.0 : 1.0;
    unsigned long long whole = 0;
    int shift = 0, point = 0, written = 0, negative = 0;
    if (!s) return 0.0;
    for (s += sign < 0.0; (*s >= '0' && *s <= '9') || *s == '.'; s++) {
        if (*s == '.') { point = 1; continue; }
        if (whole < 900000000000000000ULL) { whole = 10 * whole + (unsigned)(*s - '0'); shift -= point; }
        else shift += !point;
    }
    if (*s == 'e' || *s == 'E') {
        negative = *++s == '-';
        for (s += *s == '-' || *s == '+'; *s >= '0' && *s <= '9'; s++) if (written < 10000) written = 10 * written + (*s - '0');
        shift += negative ? -written : written;
    }
    digits = (double)whole;
    for (; shift < -22; shift += 22) digits /= 1e22;    /* powers of ten up to 22 are exact */
    for (; shift > 22; shift -= 22) digits *= 1e22;
    return sign * (shift < 0 ? digits / pow(10.0, -shift) : digits * pow(10.0, shift));
}
static inline double *spep_numbers(const char *list, int n)   /* n numbers, of lists within a list one after the other; one number n times */
{
    double *all = (double *)malloc((n ? n : 1) * sizeof(double));
    int k = 0;
    if (!all) return NULL;
    if (list && *list != '[') for (; k < n; k++) all[k] = spep_number(list);
    else for (const char *s = spep_first(list); s; s = spep_next(s)) {
        if (*s == '[') { for (const char *t = spep_first(s); t && k < n; t = spep_next(t)) all[k++] = spep_number(t); }
        else if (k < n) all[k++] = spep_number(s);
    }
    if (k == n) return all;
    free(all);
    return NULL;
}

static inline void spep_free_kernel(spep_kernel *kernel)
{
    for (int i = 0; kernel->parts && i < kernel->n; i++) spep_free_kernel(&kernel->parts[i]);
    free(kernel->parts); free(kernel->dims); free(kernel->by_column);
}
static inline int spep_read_kernel(spep_kernel *kernel, const char *s, int D, int depth)
{
    static const char *names[] = {"SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic", "Periodic", "Categorical", "Linear", "Constant", "White", "Sum", "Product"};
    const char *kind = spep_get(s, "kind"), *parts = spep_get(s, "kernels"), *dims = spep_get(s, "active_dims");
    int k = 0;
    memset(kernel, 0, sizeof *kernel);
    while (k < SPEP_KINDS && !spep_is(kind, names[k])) k++;
    if (k == SPEP_KINDS || depth > 20) return 0;
    kernel->kind = (enum spep_kind)k;
    kernel->variance = spep_number(spep_get(s, "variance"));
    kernel->period = spep_number(spep_get(s, "period"));
    kernel->shape = spep_number(spep_get(s, "shape"));
    kernel->correlation = spep_number(spep_get(s, "correlation"));
    if (parts) {
        int n = spep_count(parts);
        if (!(kernel->parts = (spep_kernel *)calloc(n ? n : 1, sizeof(spep_kernel)))) return 0;
        for (const char *part = spep_first(parts); part; part = spep_next(part)) if (!spep_read_kernel(&kernel->parts[kernel->n++], part, D, depth + 1)) return 0;
        return n > 0;
    }
    if (k >= SPEP_CONSTANT) return 1;
    kernel->n = dims && *dims == '[' ? spep_count(dims) : D;
    if (!(kernel->dims = (int *)malloc((kernel->n ? kernel->n : 1) * sizeof(int)))) return 0;
    dims = dims && *dims == '[' ? spep_first(dims) : NULL;
    for (int d = 0; d < kernel->n; d++) {
        kernel->dims[d] = dims ? (int)spep_number(dims) : d;
        if (kernel->dims[d] < 0 || kernel->dims[d] >= D) return 0;
        if (dims) dims = spep_next(dims);
    }
    if (k == SPEP_CATEGORICAL) return 1;
    kernel->by_column = spep_numbers(spep_get(s, k == SPEP_LINEAR ? "variance" : "lengthscale"), kernel->n);
    return kernel->by_column != NULL;
}
static inline double spep_covariance(const spep_kernel *kernel, const double *x, const double *z)
{
    double total = kernel->kind == SPEP_PRODUCT, r;
    switch (kernel->kind) {
    case SPEP_SUM: for (int i = 0; i < kernel->n; i++) total += spep_covariance(&kernel->parts[i], x, z); return total;
    case SPEP_PRODUCT: for (int i = 0; i < kernel->n; i++) total *= spep_covariance(&kernel->parts[i], x, z); return total;
    case SPEP_CONSTANT: return kernel->variance;
    case SPEP_WHITE: return x == z ? kernel->variance : 0.0;
    default: break;
    }
    for (int d = 0; d < kernel->n; d++) {
        double a = x[kernel->dims[d]], b = z[kernel->dims[d]];
        if (kernel->kind == SPEP_CATEGORICAL) { total += a != b; continue; }
        if (kernel->kind == SPEP_LINEAR) { total += kernel->by_column[d] * a * b; continue; }
        r = kernel->kind == SPEP_PERIODIC ? 2.0 * sin(3.14159265358979323846 * (a - b) / kernel->period) : a - b;
        r /= kernel->by_column[d];
        total += r * r;
    }
    if (kernel->kind == SPEP_LINEAR) return total;
    if (kernel->kind == SPEP_CATEGORICAL) return kernel->variance * (total > 0.0 ? kernel->correlation : 1.0);
    if (kernel->kind == SPEP_SE || kernel->kind == SPEP_PERIODIC) return kernel->variance * exp(-0.5 * total);
    if (kernel->kind == SPEP_RQ) return kernel->variance * exp(-kernel->shape * log1p(0.5 * total / kernel->shape));
    r = sqrt(total * (kernel->kind == SPEP_M12 ? 1.0 : kernel->kind == SPEP_M32 ? 3.0 : 5.0));
    return kernel->variance * exp(-r) * (kernel->kind == SPEP_M12 ? 1.0 : kernel->kind == SPEP_M32 ? 1.0 + r : 1.0 + r + r * r / 3.0);
}

static inline void spep_free(spep_model *model)
{
    if (!model) return;
    spep_free_kernel(&model->kernel);
    free(model->x_mean); free(model->x_scale); free(model->slope); free(model->centres); free(model->weights); free(model->factor);
    free(model->at); free(model->k);
    free(model);
}
static inline spep_model *spep_read(const char *text)
{
    const char *s = spep_blank(text), *inputs = spep_get(s, "inputs"), *likelihood = spep_get(s, "likelihood"), *kind = spep_get(likelihood, "kind");
    const char *target = spep_get(s, "target"), *mean = spep_get(s, "mean");
    spep_model *m = (spep_model *)calloc(1, sizeof(spep_model));
    if (!m || !spep_is(spep_get(s, "format"), "sparse_pep export") || spep_number(spep_get(s, "version")) != 1.0) { free(m); return NULL; }
    m->D = spep_count(spep_get(inputs, "mean"));
    m->M = spep_count(spep_get(s, "weights"));
    m->likelihood = spep_is(kind, "probit") ? SPEP_PROBIT : spep_is(kind, "logit") ? SPEP_LOGIT : SPEP_GAUSSIAN;
    m->noise_variance = spep_number(spep_get(likelihood, "noise_variance"));
    m->y_mean = spep_number(spep_get(target, "mean"));
    m->y_scale = spep_get(target, "scale") ? spep_number(spep_get(target, "scale")) : 1.0;
    m->constant = spep_number(spep_get(mean, "constant"));
    m->x_mean = spep_numbers(spep_get(inputs, "mean"), m->D);
    m->x_scale = spep_numbers(spep_get(inputs, "scale"), m->D);
    m->slope = spep_numbers(spep_get(mean, "slope"), m->D);
    m->centres = spep_numbers(spep_get(s, "centres"), m->M * m->D);
    m->weights = spep_numbers(spep_get(s, "weights"), m->M);
    m->factor = spep_numbers(spep_get(s, "factor"), m->M * (m->M + 1) / 2);
    m->at = (double *)malloc((m->D ? m->D : 1) * sizeof(double));
    m->k = (double *)malloc((m->M ? m->M : 1) * sizeof(double));
    if (m->D && spep_read_kernel(&m->kernel, spep_get(s, "kernel"), m->D, 0) && m->x_mean && m->x_scale && m->slope && m->centres && m->weights && m->factor
        && m->at && m->k) return m;
    spep_free(m);
    return NULL;
}
static inline int spep_inputs(const spep_model *m) { return m->D; }

/* Mean and, unless its place is NULL, variance of the latent function in the units of the model. */
static inline double spep_f(const spep_model *m, const double *x, double *variance)
{
    double *at = m->at, *k = m->k, mean = m->constant;
    for (int d = 0; d < m->D; d++) {
        at[d] = (x[d] - m->x_mean[d]) / m->x_scale[d];
        mean += m->slope[d] * at[d];
    }
    for (int i = 0; i < m->M; i++) {
        k[i] = spep_covariance(&m->kernel, at, m->centres + (size_t)i * m->D);
        mean += m->weights[i] * k[i];
    }
    if (!variance) return mean;
    const double *row = m->factor;
    *variance = spep_covariance(&m->kernel, at, at);
    for (int i = 0; i < m->M; i++) {
        double total = 0.0;
        for (int j = i; j < m->M; j++) total += *row++ * k[j];
        *variance -= total * total;
    }
    if (*variance < 0.0) *variance = 0.0;
    return mean;
}
static inline double spep_mean(const spep_model *m, const double *x) { return m->y_mean + m->y_scale * spep_f(m, x, NULL); }
static inline void spep_predict(const spep_model *m, const double *x, double *mean, double *std)
{
    double variance;
    *mean = m->y_mean + m->y_scale * spep_f(m, x, &variance);
    *std = m->y_scale * sqrt(variance + m->noise_variance);
}
static inline void spep_interval(const spep_model *m, const double *x, double level, double *lower, double *upper)
{
    double mean, std, p = 0.5 * (1.0 - level), t = 0.0;
    for (int i = 0; i < 60; i++) {                      /* Newton's method for log(1 - Phi(t)) = log p */
        double tail = 0.5 * erfc(t * 0.70710678118654752440), step = log(tail / p) * tail * 2.50662827463100050242 * exp(0.5 * t * t);
        t += step;
        if (fabs(step) < 1e-15 * (1.0 + t)) break;
    }
    spep_predict(m, x, &mean, &std);
    *lower = mean - t * std;
    *upper = mean + t * std;
}
static inline double spep_probability(const spep_model *m, const double *x)
{
    double variance, mean = spep_f(m, x, &variance), std, step, total = 0.0;
    if (m->likelihood == SPEP_PROBIT) return 0.5 * erfc(-mean / sqrt(2.0 * (1.0 + variance)));
    std = sqrt(variance);
    step = std > 1.0 ? 0.5 : 0.5 * std;                 /* the trapezoid rule */
    if (std == 0.0) return 1.0 / (1.0 + exp(-mean));
    for (int last = (int)ceil(9.0 * std / step), i = -last; i <= last; i++) {
        double t = i * step / std;
        total += exp(-0.5 * t * t) / (1.0 + exp(-mean - i * step));
    }
    return total * step / std * 0.39894228040143267794;
}

#endif
